"""The history of a run: a log of changes, observations and verdicts, with one JSON object per line.

The file suffices to derive all verdicts. Each line ends with a digest of the line and the previous digest, which
reveals changed and removed lines. If a process is killed, the last line of its history may be incomplete.

Monotonic clocks of different machines are not comparable. So a history of several machines groups the records by
machine, and each group is in order of time. Only the first and the last record have times of the wall clocks.

    begin         the worker (in a merged history, all workers), and the version of this format
    run           facts about the run
    scenario      the start of a scenario in seconds by the monotonic clock; times in messages are relative to it
    change        a change of the cluster
    window        the expectation for each client in this window, the error rates, the Service and the kind of address
    observed      the counts of one client in a window, the first wrong observations in full, and for steady traffic
                  each request with its time
    judged        verdict on a window
    convergence   the seconds until a value matched the expectation
    comparison    an expected value, the value that was read, and the verdict
    verdict       verdict on a phase of a test, and whether it follows from the judgements since the previous verdict;
                  a record without a phase has the final verdict on the test, and overrides earlier verdicts
    took          the total seconds of all phases of a test, and its start time
    shrunk        the fewest random values with which a test still fails
    steps         steps and attachments of a test, in Allure's form; merged histories omit them, except those of shards
    not-run       tests that never began, with their verdict and message
    broken-off    in a merged history: the part of a worker stops here, without an end record
    end           the last record, which is missing if the process was killed
"""

import contextlib
import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson

from harness.errors import UsageError
from harness.judging import comparison, history_file
from harness.judging import history_format as as_json
from harness.judging.comparison import Relation
from harness.judging.conclusion import cause
from harness.judging.statistics import DEFAULT_RATES, Rates, SamplePlan
from harness.judging.timeline import Change, Timed, longest_gap
from harness.judging.verdict import Expectation, Judgement, Tally, Verdict, is_wrong, judge, plans
from harness.model.outcomes import Observation
from harness.model.privacy import private

VERSION = 2
SHOWN_IN_FULL = 5
"""`Window.observe` writes at most this many wrong observations in full, and only counts the rest."""

_CHANGES = 1000  # the number of changes to keep for explanations


class History:
    """Writes the history of one process. Use it as a context manager. Thread-safe."""

    def __init__(self, path: Path, *, worker: str = "") -> None:
        """Start a new file. Raises `UsageError` if the file exists or cannot be written."""
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(f"cannot write a history to {path}: {error.strerror}") from error
        self._lock = threading.Lock()
        self._digest = b""
        self._windows = 0
        self.changes: deque[Change] = deque(maxlen=_CHANGES)  # the latest changes, for the explanation of a failure
        self._judged: list[Judgement] = []  # since the last verdict
        self._aside = False
        self.write("begin", worker=worker, version=VERSION)

    def write(self, kind: str, **fields: Any) -> None:
        """Append a record with the current time on the monotonic clock and on the wall clock, in seconds."""
        if self._aside:
            return
        record = {"kind": kind, "mono": round(time.monotonic(), 6), "wall": round(time.time(), 6), **fields}
        with self._lock:
            line, digest = sealed(record, self._digest)
            before = os.fstat(self._fd).st_size
            try:
                while line:  # usually one call; on a full disk the kernel may write less, and the next call fails
                    line = line[os.write(self._fd, line) :]
            except OSError:
                os.ftruncate(self._fd, before)  # the file ends with a complete line again
                raise
            self._digest = digest

    @contextlib.contextmanager
    def set_aside(self) -> Iterator[None]:
        """Write nothing during the block, for example while a failed test is repeated. The block affects no verdict."""
        judged, changes, self._aside = list(self._judged), list(self.changes), True
        try:
            yield
        finally:
            self._aside, self._judged = False, judged
            self.changes = deque(changes, maxlen=_CHANGES)

    def change(self, what: str, **facts: Any) -> None:
        at = round(time.monotonic(), 6)
        self.changes.append(Change(at, what, facts))
        self.write("change", mono=at, what=what, facts=facts)

    def window(
        self, test: str, expectation: Expectation, rates: Rates = DEFAULT_RATES, *, of: tuple[str, str] = ("", "")
    ) -> "Window":
        """Start a measuring window. `of` is the name of the Service that clients use, and the kind of address."""
        with self._lock:
            self._windows += 1
            number = self._windows
        window = Window(self, number, expectation, plans(expectation, rates))
        expected = {client: as_json.expected(each) for client, each in expectation.items()}
        more = {"of": of} if any(of) else {}
        self.write("window", window=number, test=test, expectation=expected, rates=as_json.rates(rates), **more)
        return window

    def compare(
        self, test: str, what: str, *, expected: Any, observed: Any, relation: Relation = "equal", unknown: str = ""
    ) -> Judgement:
        """Compare two JSON values (see `harness.judging.comparison`). Record them and the judgement. If `unknown` is
        not empty, it states why the value could not be read. Raises `TypeError` for a non-JSON value.
        """
        expected, observed = orjson.loads(orjson.dumps(expected)), orjson.loads(orjson.dumps(observed))
        if relation != "within":
            observed = comparison.excerpt(expected, observed)
        judgement = comparison.judge(what, expected, observed, relation=relation, unknown=unknown)
        special: dict[str, str] = {"relation": relation} if relation != "equal" else {}
        special |= {"unknown": unknown} if unknown else {}
        values = {"expected": expected, "observed": observed, **special}
        self.write("comparison", test=test, what=what, **values, verdict=judgement.verdict)
        self._judged.append(judgement)
        return judgement

    def judged(self, window: int, judgement: Judgement) -> None:
        self.write("judged", window=window, verdict=judgement.verdict, message=judgement.message)
        self._judged.append(judgement)

    def verdict(
        self,
        test: str,
        phase: str,
        verdict: Verdict,
        message: str = "",
        *,
        ended_by: Judgement | None = None,
        **facts: Any,
    ) -> None:
        """Record the verdict on a phase and its cause. `ended_by` is the judgement that ended the phase, if any."""
        why = cause(self._judged, verdict, ended_by)
        self._judged.clear()
        self.write("verdict", test=test, phase=phase, verdict=verdict, message=message, cause=why, **facts)

    def close(self) -> None:
        if self._fd >= 0:
            try:
                self.write("end")
            finally:
                os.close(self._fd)
                self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(eq=False, slots=True)
class Window:
    """Counts, records and judges observations of a measuring window. `plans` contains each client's sample plan."""

    _history: History
    _number: int
    _expectation: Expectation
    plans: Mapping[str, SamplePlan]
    tallies: dict[str, Tally] = field(default_factory=dict)
    first_wrong: dict[str, Observation] = field(default_factory=dict)  # by client
    opened: float = field(default_factory=time.time)

    def observe(self, client: str, observations: Sequence[Observation]) -> None:
        self._count(client, observations, Tally.of(observations))

    def observe_flow(self, client: str, samples: Sequence[Timed]) -> list[Timed]:
        """Count a client's steady traffic. Call this once per client. Return the requests with rounded times."""
        flow = as_json.flow(samples)
        samples = as_json.read_flow(flow)
        observations = [observation for _, observation in samples]
        tally = Tally.of(observations)
        tally.gap_ms = longest_gap(samples)
        self._count(client, observations, tally, flow=flow)
        return samples

    def _count(self, client: str, observations: Sequence[Observation], tally: Tally, **more: Any) -> None:
        wrong = [(index, each) for index, each in enumerate(observations) if is_wrong(each, self._expectation[client])]
        for _, each in wrong[:1]:
            self.first_wrong.setdefault(client, each)
        shown = [{"index": index, "saw": as_json.observation(each)} for index, each in wrong[:SHOWN_IN_FULL]]
        counted = {"tally": as_json.tally(tally), "offending": shown, **more}
        self._history.write("observed", window=self._number, client=client, **counted)
        self.tallies.setdefault(client, Tally()).add(tally)

    def judgement(self) -> Judgement:
        """Return the judgement on the observations so far, without recording it."""
        return judge(self._expectation, self.tallies, self.plans)

    def judge(self) -> Judgement:
        judgement = self.judgement()
        self._history.judged(self._number, judgement)
        return judgement


@dataclass(frozen=True, slots=True)
class RecordedHistory:
    """The records of a history whose digests are valid."""

    records: tuple[dict[str, Any], ...]
    complete: bool  # whether all workers wrote their end record
    torn: str = ""  # an incomplete last line
    sha256: str = ""  # of the whole file
    workers: tuple[str, ...] = ()  # the workers whose parts `read_parts` has read
    walls: tuple[float, float] | None = None  # start and end by the wall clocks, if the parts are from several machines


def read(path: Path) -> RecordedHistory:
    """Read and verify a plain or compressed history. Raises `UsageError` with the number of the first invalid line."""
    content = history_file.read(path)
    *lines, torn = content.split(b"\n")
    if not lines:
        raise UsageError(f"{path} is not a history: it has no complete line")
    records, digest = [], b""
    for number, line in enumerate(lines, start=1):
        record, digest = _opened(line, digest, f"{path}, line {number}")
        records.append(record)
    first, last = records[0], records[-1]
    if first["kind"] != "begin":
        raise UsageError(f"{path}, line 1: this is not the first line of a history; earlier lines were removed")
    if first.get("version") != VERSION:
        raise UsageError(
            f"{path}, line 1: has format version {first.get('version')}, and this release reads version {VERSION}: "
            "use the release of trafficdist that wrote this history"
        )
    workers = first.get("merged", [])
    if not isinstance(workers, list) or not all(isinstance(each, str) for each in workers):
        raise UsageError(f"{path}, line 1: the list of workers is invalid, so no run wrote this file")
    if "merged" in first and (last["kind"] != "end" or torn):
        number = len(records) + 1
        raise UsageError(f"{path}, line {number}: the rest of the history is missing: this and all later lines")
    complete = last["kind"] == "end" and all(each["kind"] != "broken-off" for each in records)
    return RecordedHistory(
        tuple(records), complete, torn.decode("utf-8", "replace"), hashlib.sha256(content).hexdigest()
    )


class HistoryParts:
    """Reads the histories of a run's processes before they are merged, even while the processes still write them."""

    def __init__(self) -> None:
        self._parts: dict[Path, _HistoryPart] = {}

    def new(self, paths: Iterable[Path]) -> list[dict[str, Any]]:
        """Return the records added since the last call, file by file. Raises `UsageError` if earlier lines changed."""
        return [record for path in sorted(paths) for record in self._parts.setdefault(path, _HistoryPart(path)).new()]

    def recorded(self) -> RecordedHistory:
        """Return all records in order of time, without end records. A part that has none gets a "broken-off" record."""
        parts = list(self._parts.values())
        entries = [record for part in parts for record in part.entries()]
        entries.sort(key=lambda record: float(record["mono"]))  # stable: the records of each worker keep their order
        return RecordedHistory(tuple(entries), complete=False, workers=tuple(part.worker for part in parts))


class _HistoryPart:
    def __init__(self, path: Path) -> None:
        self.worker = path.stem.removeprefix("history-")
        self._path = path
        self._records: list[dict[str, Any]] = []
        self._read, self._digest, self._torn = 0, b"", b""

    def new(self) -> list[dict[str, Any]]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                *lines, self._torn = file.read().split(b"\n")
        except OSError as error:
            raise UsageError(f"history {self._path}: cannot be read: {error.strerror}") from error
        known = len(self._records)
        for line in lines:
            record, self._digest = _opened(line, self._digest, f"{self._path}, line {len(self._records) + 1}")
            if not self._records:
                self.worker = record.get("worker") or self.worker
            self._records.append({**record, "worker": self.worker})
            self._read += len(line) + 1
        return self._records[known:]

    def entries(self) -> list[dict[str, Any]]:
        """Return the records except the end record. If there is no end record, add a "broken-off" record."""
        found = [record for record in self._records if record["kind"] != "end"]
        last = self._records[-1] if self._records else {"kind": "", "mono": 0, "wall": 0}
        if last["kind"] != "end":
            torn = self._torn.decode("utf-8", "replace")
            times = {"mono": last["mono"], "wall": last["wall"]}
            found.append({"kind": "broken-off", **times, "worker": self.worker, "torn": torn})
        return found


def read_parts(paths: Iterable[Path]) -> RecordedHistory:
    """Read the histories of the processes of a killed run. Raises `UsageError` if a history was changed."""
    parts = HistoryParts()
    parts.new(paths)
    return parts.recorded()


def merge(parts: RecordedHistory, out: Path, closing: Sequence[Mapping[str, Any]] = (), *, steps: bool = False) -> None:
    """Write the parts of a run as one history, followed by the records in `closing`, which describe the whole run."""
    entries = [each for each in parts.records if steps or each["kind"] != "steps"]
    began = {key: entries[0][key] if entries else 0 for key in ("mono", "wall")}
    ended = {key: entries[-1][key] if entries else 0 for key in ("mono", "wall")}
    if parts.walls is not None:
        first, last = parts.walls
        began, ended = {"mono": 0.0, "wall": first}, {"mono": last - first, "wall": last}
    begin = {"kind": "begin", **began, "worker": "", "version": VERSION, "merged": parts.workers}
    lines, digest = [], b""
    for record in (begin, *entries, *({**each, **ended} for each in closing), {"kind": "end", **ended}):
        line, digest = sealed(record, digest)
        lines.append(line)
    out.write_bytes(b"".join(lines))


def sealed(record: Mapping[str, Any], before: bytes) -> tuple[bytes, bytes]:
    """Return a record as a line that ends with its digest, and this digest. `before` is the previous line's digest."""
    line, digest = history_file.sealed(private(orjson.dumps(record)[:-1].decode()).encode(), before)
    return line + b"\n", digest


def _opened(line: bytes, before: bytes, where: str) -> tuple[dict[str, Any], bytes]:
    body = line[: -history_file.TAIL]
    whole, digest = history_file.sealed(body, before)
    if whole != line:
        raise UsageError(f"{where}: the digest does not match; this line was changed, or one before it was removed")
    try:
        record = orjson.loads(line)
        del record["digest"]
        if orjson.dumps(record)[:-1] != body:  # a duplicate key, or different formatting
            raise ValueError
        if not isinstance(record["kind"], str):
            raise TypeError
        record["mono"], record["wall"] = float(record["mono"]), float(record["wall"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{where}: not a record of a history") from error
    return record, digest
