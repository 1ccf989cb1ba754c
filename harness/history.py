"""What a run saw, written down as it happens, one JSON object a line.

Judging needs nothing but this file: a corrected judge can be applied to last year's runs, and whoever doubts a verdict
can derive it again. Each line ends with a digest over itself and the digest of the line before, so that a changed or
removed line is found by its number. A line is written whole, by one system call: what a killed process leaves is a
history without end, at worst with a torn last line, and both are told.

    begin         worker, version of this format
    run           facts about the run
    change        what was done to the cluster
    window        what is expected of each client from here on, and the error rates
    observed      counts of one client in a window, and the first offending observations in full
    judged        verdict on a window
    comparison    something expected and something written down, equal or not, and the verdict
    verdict       verdict on a test
    broken-off    in a merged history: here a worker's part ended, without its end
    end
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

from harness import history_format as as_json
from harness.errors import UsageError
from harness.evidence.timeline import Change
from harness.outcomes import Observation
from harness.statistics import DEFAULT_RATES, Rates
from harness.verdict import Expectation, Judgement, Tally, Verdict, combine, is_wrong, judge

VERSION = 1
SHOWN_IN_FULL = 5
"""Offending observations of one client and call that are written in full; the rest is in the counts."""

_CHANGES = 1000  # that are remembered

_DIGEST = 64  # hexadecimal digits of SHA-256
_TAIL = len(b',"digest":""}') + _DIGEST


class History:
    """A history being written, by one process; a context manager. Safe to use from several threads."""

    def __init__(self, path: Path, *, worker: str = "") -> None:
        """Begin a new file. Raises `UsageError` when it cannot be written or exists."""
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(f"cannot write a history to {path}: {error.strerror}") from error
        self._lock = threading.Lock()
        self._digest = b""
        self._windows = 0
        self.changes: deque[Change] = deque(maxlen=_CHANGES)  # the latest, for a failure to tell of
        self.write("begin", worker=worker, version=VERSION)

    def write(self, kind: str, **fields: Any) -> None:
        """Append one record, with the time (monotonic and wall clock, seconds)."""
        record = {"kind": kind, "mono": round(time.monotonic(), 6), "wall": round(time.time(), 6), **fields}
        with self._lock:
            line, self._digest = sealed(record, self._digest)
            _write_all(self._fd, line)

    def run(self, **facts: Any) -> None:
        """Facts about the run: arguments, versions, seed."""
        self.write("run", facts=facts)

    def change(self, what: str, **facts: Any) -> None:
        """Something is done to the cluster, now."""
        self.changes.append(Change(time.monotonic(), what, facts))
        self.write("change", what=what, facts=facts)

    def window(self, test: str, expectation: Expectation, rates: Rates = DEFAULT_RATES) -> Window:
        """Begin a measuring window of a test: from here on each observation counts."""
        with self._lock:
            self._windows += 1
            number = self._windows
        expected = {client: as_json.expected(each) for client, each in expectation.items()}
        self.write("window", window=number, test=test, expectation=expected, rates=as_json.rates(rates))
        return Window(self, number, expectation, rates)

    def compare(self, test: str, what: str, *, expected: Any, observed: Any) -> Judgement:
        """Judge two JSON-able values by equality, for what is read through the API and not probed."""
        judgement = compare(what, expected, observed)
        self.write(
            "comparison", test=test, what=what, expected=expected, observed=observed, verdict=judgement.verdict.value
        )
        return judgement

    def verdict(self, test: str, verdict: Verdict, message: str = "") -> None:
        """The verdict on a whole test, as it stands in the report."""
        self.write("verdict", test=test, verdict=verdict.value, message=message)

    def close(self) -> None:
        """End the file. Idempotent."""
        if self._fd >= 0:
            self.write("end")
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Window:
    """A measuring window: observations go in, one judgement comes out, and all of it is written down."""

    def __init__(self, history: History, number: int, expectation: Expectation, rates: Rates) -> None:
        self._history = history
        self._number = number
        self._expectation = expectation
        self.rates = rates
        self.tallies: dict[str, Tally] = {}

    def observe(self, client: str, observations: Sequence[Observation], *, gap_ms: float = 0.0) -> None:
        """Count what a client saw, with the longest gap where it was measured. May be called several times."""
        tally = Tally.of(observations)
        tally.gap_ms = gap_ms
        wrong = [
            {"index": index, "saw": as_json.observation(each)}
            for index, each in enumerate(observations)
            if is_wrong(each, self._expectation[client])
        ]
        self._history.write(
            "observed", window=self._number, client=client, tally=as_json.tally(tally), offending=wrong[:SHOWN_IN_FULL]
        )
        self.tallies.setdefault(client, Tally()).add(tally)

    def judge(self) -> Judgement:
        """The verdict on everything observed, written down."""
        judgement = judge(self._expectation, self.tallies, self.rates)
        self._history.write("judged", window=self._number, verdict=judgement.verdict.value, message=judgement.message)
        return judgement


@dataclass(frozen=True, slots=True)
class Recorded:
    """A history that was read and holds together.

    `torn` is the text of an unfinished last line, and `complete` whether the run came to its end.
    """

    records: tuple[dict[str, Any], ...]
    complete: bool
    torn: str = ""


@dataclass(frozen=True, slots=True)
class Rejudged:
    """A verdict derived again: `stated` when the run took place (None: it did not get so far), `derived` now."""

    test: str
    what: str
    stated: Verdict | None
    derived: Judgement

    @property
    def moved(self) -> bool:
        """Whether the two differ."""
        return self.stated is not self.derived.verdict


def read(path: Path) -> Recorded:
    """Read a history and verify its digests. Raises `UsageError` with the number of the line that does not fit."""
    recorded = _read(path)
    if not recorded.records:
        raise UsageError(f"{path} is not a history: it has no complete line")
    return recorded


def rejudge(path: Path) -> list[Rejudged]:
    """Derive every verdict on a window or comparison again from what was observed. Raises `UsageError`."""
    return list(_rejudged(read(path).records))


def verdicts(path: Path) -> dict[str, Verdict]:
    """The verdict on each test that has windows or comparisons, derived again. Raises `UsageError`."""
    found: dict[str, list[Verdict]] = {}
    for each in rejudge(path):
        found.setdefault(each.test, []).append(each.derived.verdict)
    return {test: combine(each) for test, each in found.items()}


def merge(paths: Sequence[Path], out: Path) -> None:
    """Make one history of those that the workers of a run wrote: in order of time, newly chained.

    What a worker that died left unfinished is written down as such. Raises `UsageError` for a part that was changed.
    """
    entries: list[dict[str, Any]] = []
    whole = True
    for path in sorted(paths):
        recorded = _read(path)
        first, last = (recorded.records[0], recorded.records[-1]) if recorded.records else ({}, {"mono": 0, "wall": 0})
        worker = first.get("worker") or path.stem
        entries += [{**record, "worker": worker} for record in recorded.records if record["kind"] != "end"]
        if not recorded.complete:
            whole = False
            times = {"mono": last["mono"], "wall": last["wall"]}
            entries.append({"kind": "broken-off", **times, "worker": worker, "torn": recorded.torn})
    entries.sort(key=lambda record: float(record["mono"]))  # stable: each worker's records keep their order
    if entries and whole:
        entries.append({"kind": "end", "mono": entries[-1]["mono"], "wall": entries[-1]["wall"]})
    lines, digest = [], b""
    for record in entries:
        line, digest = sealed(record, digest)
        lines.append(line)
    out.write_bytes(b"".join(lines))


def compare(what: str, expected: Any, observed: Any) -> Judgement:
    """Whether two JSON-able values are equal as JSON."""
    if orjson.dumps(expected, option=orjson.OPT_SORT_KEYS) == orjson.dumps(observed, option=orjson.OPT_SORT_KEYS):
        return Judgement(Verdict.PASSED, f"{what}: as expected")
    return Judgement(Verdict.FAILED, f"{what}: expected {expected!r}, observed {observed!r}")


def sealed(record: Mapping[str, Any], before: bytes) -> tuple[bytes, bytes]:
    """A record as a line that ends with its digest, and that digest; `before` is the digest of the line before."""
    body = orjson.dumps(record)[:-1]
    digest = hashlib.sha256(before + body).hexdigest().encode()
    return b'%s,"digest":"%s"}\n' % (body, digest), digest


def _read(path: Path) -> Recorded:
    try:
        *lines, torn = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"cannot read the history {path}: {error.strerror}") from error
    records = []
    digest = b""
    for number, line in enumerate(lines, start=1):
        record, digest = _opened(line, digest, f"{path}, line {number}")
        records.append(record)
    complete = bool(records) and records[-1]["kind"] == "end"
    return Recorded(tuple(records), complete, torn.decode("utf-8", "replace"))


def _opened(line: bytes, before: bytes, where: str) -> tuple[dict[str, Any], bytes]:
    digest = line[-_DIGEST - 2 : -2]
    if hashlib.sha256(before + line[:-_TAIL]).hexdigest().encode() != digest:
        raise UsageError(f"{where}: the digest does not fit; this line was changed, or one before it was removed")
    try:
        record = orjson.loads(line)
        if not isinstance(record["kind"], str):
            raise TypeError
        del record["digest"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise UsageError(f"{where}: not a record of a history") from error
    return record, digest


def _rejudged(records: Sequence[Mapping[str, Any]]) -> Iterator[Rejudged]:
    """Windows are told apart by worker and number; a merged history has several of a number."""
    windows: dict[tuple[str, int], Mapping[str, Any]] = {}
    tallies: dict[tuple[str, int], dict[str, Tally]] = {}
    stated: dict[tuple[str, int], Verdict] = {}
    for record in records:
        key = (record.get("worker", ""), record.get("window", 0))
        match record["kind"]:
            case "window":
                windows[key], tallies[key] = record, {}
            case "observed":
                tallies[key].setdefault(record["client"], Tally()).add(as_json.read_tally(record["tally"]))
            case "judged":
                stated[key] = Verdict(record["verdict"])
            case "comparison":
                derived = compare(record["what"], record["expected"], record["observed"])
                yield Rejudged(record["test"], record["what"], Verdict(record["verdict"]), derived)
    for key, window in windows.items():
        expectation = {client: as_json.read_expected(each) for client, each in window["expectation"].items()}
        derived = judge(expectation, tallies[key], as_json.read_rates(window["rates"]))
        yield Rejudged(window["test"], f"window {key[1]}", stated.get(key), derived)


def _write_all(fd: int, data: bytes) -> None:
    """One write as a rule; the kernel may take less on a full disk, and then the rest follows or raises."""
    while data:
        data = data[os.write(fd, data) :]
