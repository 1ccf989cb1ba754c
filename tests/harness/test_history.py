"""A history is complete enough to be judged again, and shows every tampering by line."""

from __future__ import annotations

import threading
from pathlib import Path

import orjson
import pytest

from harness.errors import UsageError
from harness.history import History, merge, read, rejudge, sealed, verdicts
from harness.outcomes import REFUSED, TIMED_OUT, Observation, Reached, Unknown
from harness.statistics import Rates
from harness.verdict import NO_ANSWER, AnyOf, Evenly, Expected, Judgement, Verdict

A1, B1 = Reached("a1", "10.244.1.2"), Reached("b1", "10.244.1.2")
LOOSE = Rates(leak=0.5, miss=0.1)


def window(history: History, test: str, expected: Expected, *observations: Observation) -> Judgement:
    """A whole window of one client."""
    opened = history.window(test, {"a1": expected}, LOOSE)
    opened.observe("a1", observations)
    return opened.judge()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The history of a small run: one test that passes, one that fails, one that cannot tell."""
    path = tmp_path / "run.jsonl"
    with History(path, worker="gw0") as history:
        history.run(seed=7)
        window(history, "KEP-1/passes", {"a1", "b1"}, *[A1, B1] * 4)
        history.change("delete pod", pod="b1")
        window(history, "KEP-1/fails", {"a1"}, *[A1] * 8, TIMED_OUT, B1)
        window(history, "KEP-1/cannot-tell", REFUSED, *[REFUSED] * 8, Unknown("no route"))
        history.compare("KEP-1/passes", "hints", expected={"a1": ["a"]}, observed={"a1": ["a"]})
    return path


def test_verdicts_derived_offline_equal_the_online_ones(path: Path) -> None:
    again = rejudge(path)
    assert [(each.test, each.stated, each.moved) for each in again] == [
        ("KEP-1/passes", Verdict.PASSED, False),
        ("KEP-1/passes", Verdict.PASSED, False),
        ("KEP-1/fails", Verdict.FAILED, False),
        ("KEP-1/cannot-tell", Verdict.INCONCLUSIVE, False),
    ]
    messages = [record["message"] for record in read(path).records if record["kind"] == "judged"]
    assert [each.derived.message for each in again[1:]] == messages


def test_verdicts_of_a_test_are_combined(path: Path) -> None:
    assert verdicts(path) == {
        "KEP-1/passes": Verdict.PASSED,
        "KEP-1/fails": Verdict.FAILED,
        "KEP-1/cannot-tell": Verdict.INCONCLUSIVE,
    }


@pytest.mark.parametrize(
    ("expected", "observations"),
    [
        ({"a1"}, [A1] * 8),
        (TIMED_OUT, [A1]),
        (NO_ANSWER, [TIMED_OUT, REFUSED] * 4),
        (AnyOf(frozenset({"a1", "b1"})), [A1] * 8),
        (Evenly(frozenset({"a1", "b1"})), [A1] * 800 + [B1] * 30),
        ({"a1"}, [Unknown("x")]),
        ({"a1"}, []),
    ],
)
def test_every_kind_of_expectation_survives_the_file(
    tmp_path: Path, expected: Expected, observations: list[Observation]
) -> None:
    with History(tmp_path / "h") as history:
        online = window(history, "KEP-1/x", expected, *observations)
    (again,) = rejudge(tmp_path / "h")
    assert again.derived == online


def test_the_longest_gap_of_a_client_is_written(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        opened = history.window("KEP-1/x", {"a1": AnyOf(frozenset({"a1"}))}, LOOSE)
        opened.observe("a1", [A1] * 4, gap_ms=12.5)
        opened.observe("a1", [A1] * 4, gap_ms=2.0)
        opened.judge()
    written = [record["tally"]["gapMs"] for record in read(tmp_path / "h").records if record["kind"] == "observed"]
    assert (written, opened.tallies["a1"].gap_ms) == ([12.5, 2.0], 12.5)


def test_observations_of_several_calls_are_judged_together(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        opened = history.window("KEP-1/x", {"a1": {"a1", "b1"}}, LOOSE)
        opened.observe("a1", [A1] * 4)
        opened.observe("a1", [B1] * 4)
        assert opened.judge().verdict is Verdict.PASSED
    assert rejudge(tmp_path / "h")[0].derived.verdict is Verdict.PASSED


def test_offending_observations_are_written_in_full_and_only_the_first_ones(path: Path, tmp_path: Path) -> None:
    with History(tmp_path / "many") as history:
        window(history, "KEP-1/x", {"a1"}, A1, *[B1] * 100)
    (observed,) = (record for record in read(tmp_path / "many").records if record["kind"] == "observed")
    assert observed["tally"] == {"pods": {"a1": 1, "b1": 100}}
    assert observed["offending"] == [{"index": i, "saw": {"reached": "b1", "from": "10.244.1.2"}} for i in range(1, 6)]


def test_a_comparison_is_judged_by_equality(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        judgement = history.compare("KEP-1/x", "hints of a1", expected=["a"], observed=None)
    assert judgement.message == "hints of a1: expected ['a'], observed None"
    assert rejudge(tmp_path / "h")[0].derived.verdict is Verdict.FAILED


def test_every_removed_line_but_the_last_is_refused_by_number(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    for gone in range(len(lines) - 1):
        path.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
        with pytest.raises(UsageError, match=rf"line {gone + 1}: the digest does not fit"):
            read(path)


def test_every_changed_line_is_refused_by_number(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    for changed, line in enumerate(lines):
        path.write_bytes(b"".join([*lines[:changed], line.replace(b'"mono":', b'"mono":9'), *lines[changed + 1 :]]))
        with pytest.raises(UsageError, match=rf"line {changed + 1}: the digest"):
            read(path)


def test_a_history_that_lost_its_end_says_so(path: Path) -> None:
    assert read(path).complete
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert not read(path).complete


def test_a_torn_last_line_is_told(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])
    recorded = read(path)
    assert recorded.torn.startswith('{"kind":"end"')
    assert not recorded.complete


@pytest.mark.parametrize("content", [b"", b"no history\n", b'{"kind":"begin"}\n', sealed({"x": 1}, b"")[0]])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "h").write_bytes(content)
    with pytest.raises(UsageError):
        read(tmp_path / "h")


def test_a_history_is_never_overwritten(path: Path) -> None:
    with pytest.raises(UsageError, match="File exists"):
        History(path)


def test_a_verdict_that_moved_is_told(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        opened = history.window("KEP-1/x", {"a1": {"a1"}}, LOOSE)
        opened.observe("a1", [B1])
        history.write("judged", window=1, verdict="passed", message="an older judge")
    (again,) = rejudge(tmp_path / "h")
    assert (again.moved, again.stated, again.derived.verdict) == (True, Verdict.PASSED, Verdict.FAILED)


def test_lines_of_several_threads_do_not_mix(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        threads = [
            threading.Thread(target=lambda: [history.change("x" * 5000) for _ in range(50)], daemon=True)
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(read(tmp_path / "h").records) == 202


def test_histories_of_workers_merge_into_one_in_order_of_time(tmp_path: Path) -> None:
    with History(tmp_path / "b", worker="gw1") as second, History(tmp_path / "a", worker="gw0") as first:
        window(second, "KEP-1/second", {"a1"}, *[A1] * 8)
        window(first, "KEP-1/first", {"a1"}, B1)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "run.jsonl")
    merged = read(tmp_path / "run.jsonl")
    times = [record["mono"] for record in merged.records]
    assert merged.complete
    assert times == sorted(times)
    assert [record["kind"] for record in merged.records].count("end") == 1
    assert verdicts(tmp_path / "run.jsonl") == {"KEP-1/second": Verdict.PASSED, "KEP-1/first": Verdict.FAILED}


def test_a_worker_that_died_leaves_a_merged_history_without_end(tmp_path: Path, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])
    merge([path], tmp_path / "merged")
    merged = read(tmp_path / "merged")
    assert not merged.complete
    assert merged.records[-1]["kind"] == "broken-off"
    assert merged.records[-1]["torn"].startswith('{"kind":"end"')
    assert len(verdicts(tmp_path / "merged")) == 3


def test_a_worker_that_died_at_once_is_merged_as_such(tmp_path: Path, path: Path) -> None:
    (tmp_path / "gw1.jsonl").write_bytes(b'{"ki')
    merge([path, tmp_path / "gw1.jsonl"], tmp_path / "merged")
    merged = read(tmp_path / "merged")
    assert not merged.complete
    assert [(r["worker"], r["torn"]) for r in merged.records if r["kind"] == "broken-off"] == [("gw1", '{"ki')]
    assert len(verdicts(tmp_path / "merged")) == 3


def test_a_changed_part_is_not_merged(tmp_path: Path, path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"seed":7', b'"seed":8'))
    with pytest.raises(UsageError, match="line 2"):
        merge([path], tmp_path / "merged")


def test_every_line_is_plain_json(path: Path) -> None:
    for line in path.read_bytes().splitlines():
        assert {"kind", "mono", "wall", "digest"} <= orjson.loads(line).keys()
