"""Tests that verdicts can be derived again from a history, and that a changed line is reported by its number."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.judging.conclusion import VerdictCause
from harness.judging.history import History, merge, read, read_parts, sealed
from harness.judging.history_format import flow, read_flow, read_rates
from harness.judging.history_format import rates as as_json
from harness.judging.judge import judge
from harness.judging.statistics import Rates
from harness.judging.verdict import NO_ANSWER, AnyOf, EqualShares, Expected, Judgement, Verdict
from harness.model.outcomes import REFUSED, TIMED_OUT, Observation, Reached, Refused, Unknown
from harness.scenario.record import ScenarioRecord

A1, B1 = Reached("a1", "10.244.1.2"), Reached("b1", "10.244.1.2")
LOOSE = Rates(leak=0.5, miss=0.1, alarm=0.1)


def window(history: History, test: str, expected: Expected, *observations: Observation) -> Judgement:
    """Record a window of one client, and a verdict that rests only on this window."""
    opened = history.window(test, {"a1": expected}, LOOSE)
    opened.observe("a1", observations)
    judgement = opened.judge()
    conclude(history, test, judgement)
    return judgement


def conclude(history: History, test: str, judgement: Judgement) -> None:
    message = "" if judgement.verdict is Verdict.PASSED else judgement.message
    facts = {"level": "MUST", "profile": "service-proxy", "core": True, "number": 0}
    ended_by = judgement if message else None
    history.verdict(test, "call", judgement.verdict, message, ended_by=ended_by, **facts)


def verdicts(path: Path) -> dict[str, Verdict]:
    """Derive the verdict of each test again from the history."""
    return {each.requirement.id: each.verdict for each in judge(read(path).records, path).derived()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the history of a small run with three tests: one passes, one fails, and one is inconclusive."""
    path = tmp_path / "run.jsonl"
    with History(path, worker="gw0") as history:
        history.write("run", facts={"seed": 7})
        window(history, "KEP-1/passes", {"a1", "b1"}, *[A1, B1] * 4)
        history.change("delete pod", pod="b1")
        window(history, "KEP-1/fails", {"a1"}, *[A1] * 8, TIMED_OUT, B1)
        window(history, "KEP-1/cannot-tell", REFUSED, *[REFUSED] * 8, Unknown("no route"))
        conclude(history, "KEP-1/agrees", history.compare("KEP-1/agrees", "hints", expected=["a"], observed=["a"]))
    return path


def test_verdicts_derived_offline_equal_the_online_ones(path: Path) -> None:
    judged = judge(read(path).records, path)
    assert verdicts(path) == {
        "KEP-1/agrees": Verdict.PASSED,
        "KEP-1/cannot-tell": Verdict.INCONCLUSIVE,
        "KEP-1/fails": Verdict.FAILED,
        "KEP-1/passes": Verdict.PASSED,
    }
    assert [each.worst.message for each in judged.derived()] == [each.worst.message for each in judged.stated()]
    assert set(judged.causes().values()) == {VerdictCause.OBSERVED}


@pytest.mark.parametrize(
    ("expected", "observations"),
    [
        ({"a1"}, [A1] * 8),
        (TIMED_OUT, [A1]),
        (TIMED_OUT, [REFUSED, Refused("EHOSTUNREACH"), Refused("EACCES")] * 3),
        (NO_ANSWER, [TIMED_OUT, REFUSED] * 4),
        (AnyOf(frozenset({"a1", "b1"})), [A1] * 8),
        (EqualShares(frozenset({"a1", "b1"})), [A1] * 800 + [B1] * 30),
        ({"a1"}, [Unknown("x")]),
        ({"a1"}, []),
    ],
)
def test_every_kind_of_expectation_survives_the_file(
    tmp_path: Path, expected: Expected, observations: list[Observation]
) -> None:
    with History(tmp_path / "h") as history:
        online = window(history, "KEP-1/x", expected, *observations)
    (again,) = judge(read(tmp_path / "h").records, tmp_path / "h").derived()
    assert again.verdict is online.verdict
    assert again.worst.message == ("" if online.verdict is Verdict.PASSED else online.message)


def test_the_longest_gap_of_a_client_is_written(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        opened = history.window("KEP-1/x", {"a1": AnyOf(frozenset({"a1"}))}, LOOSE)
        opened.observe_flow("a1", [(0.0, A1), (0.004, TIMED_OUT), (0.0125, A1), (0.016, A1)])
        opened.judge()
    (written,) = [record for record in read(tmp_path / "h").records if record["kind"] == "observed"]
    assert (written["tally"]["gapMs"], opened.tallies["a1"].gap_ms) == (12.0, 12.0)  # as the times are recorded
    assert written["flow"]["saw"] == "abaa"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5000),
            st.sampled_from([A1, B1, TIMED_OUT, REFUSED, Refused("EHOSTUNREACH"), Unknown("no route")]),
        ),
        max_size=40,
    )
)
def test_steady_traffic_is_read_as_it_was_written(asked: list[tuple[int, Observation]]) -> None:
    samples = [(10.0 + at / 1000, each) for at, each in sorted(asked, key=lambda each: each[0])]
    again = read_flow(json.loads(json.dumps(flow(samples))))
    assert [repr(each) for _, each in again] == [repr(each) for _, each in samples]
    assert [at for at, _ in again] == pytest.approx([at for at, _ in samples], abs=0.0006)


def test_observations_of_several_calls_are_judged_together(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        opened = history.window("KEP-1/x", {"a1": {"a1", "b1"}}, LOOSE)
        opened.observe("a1", [A1] * 4)
        opened.observe("a1", [B1] * 4)
        conclude(history, "KEP-1/x", opened.judge())
    assert verdicts(tmp_path / "h") == {"KEP-1/x": Verdict.PASSED}


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
    assert judgement.verdict is Verdict.FAILED


def test_values_are_compared_and_shown_as_the_history_has_them(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        same = history.compare("KEP-1/x", "ready, serving", expected=(True, False), observed=[True, False])
        other = history.compare("KEP-1/x", "ready, serving", expected=(True, False), observed=None)
    assert same.verdict is Verdict.PASSED
    assert other.message == "ready, serving: expected [True, False], observed None"


@pytest.mark.parametrize(
    ("fewest", "most", "observed", "message"),
    [
        (1, 3, 3, "writes: as expected"),
        (1, 3, 4, "writes: expected 1 to 3, observed 4"),
        (1, None, 0, "writes: expected at least 1, observed 0"),
        (0, 0, 2, "writes: expected 0, observed 2"),
        (0, 10.5, {"a1": 3, "b1": 11, "c1": 10}, "writes: expected at most 10.5, observed b1 11"),
    ],
)
def test_numbers_are_compared_with_two_bounds(
    tmp_path: Path, fewest: float, most: float | None, observed: object, message: str
) -> None:
    with History(tmp_path / "h") as history:
        judgement = history.compare("t", "writes", expected=[fewest, most], observed=observed, relation="within")
    assert judgement.message == message


def test_what_could_not_be_observed_is_inconclusive(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        judgement = history.compare("KEP-1/x", "address", expected="a", observed=None, unknown="no route")
        conclude(history, "KEP-1/x", judgement)
    assert judgement.message == "address: could not be told: no route"
    assert verdicts(tmp_path / "h") == {"KEP-1/x": Verdict.INCONCLUSIVE}


def test_every_removed_line_but_the_last_is_refused_by_number(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    for gone in range(len(lines) - 1):
        path.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
        with pytest.raises(UsageError, match=rf"line {gone + 1}: the digest does not match"):
            read(path)


def test_every_changed_line_is_refused_by_number(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    for changed, line in enumerate(lines):
        path.write_bytes(b"".join([*lines[:changed], line.replace(b'"mono":', b'"mono":9'), *lines[changed + 1 :]]))
        with pytest.raises(UsageError, match=rf"line {changed + 1}: the digest"):
            read(path)


def test_history_without_its_end_is_reported_as_incomplete(path: Path) -> None:
    assert read(path).complete
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert not read(path).complete


def test_truncated_last_line_is_reported(path: Path) -> None:
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


def test_moved_verdict_is_detected(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        opened = history.window("KEP-1/x", {"a1": {"a1"}}, LOOSE)
        opened.observe("a1", [B1])
        older = Judgement(Verdict.PASSED, "an older judge")
        history.judged(1, older)
        conclude(history, "KEP-1/x", older)
    judged = judge(read(tmp_path / "h").records, tmp_path / "h")
    assert [each.verdict for each in (*judged.stated(), *judged.derived())] == [Verdict.PASSED, Verdict.FAILED]


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
    merge(read_parts([tmp_path / "a", tmp_path / "b"]), tmp_path / "run.jsonl")
    merged = read(tmp_path / "run.jsonl")
    times = [record["mono"] for record in merged.records]
    assert merged.complete
    assert times == sorted(times)
    assert [record["kind"] for record in merged.records].count("end") == 1
    assert verdicts(tmp_path / "run.jsonl") == {"KEP-1/first": Verdict.FAILED, "KEP-1/second": Verdict.PASSED}


def test_a_merged_history_without_its_end_is_refused(tmp_path: Path, path: Path) -> None:
    merge(read_parts([path]), tmp_path / "run.jsonl")
    *lines, last = (tmp_path / "run.jsonl").read_bytes().splitlines(keepends=True)
    for left in ([*lines, last[:-20]], lines, lines[:5], lines[:1]):
        (tmp_path / "run.jsonl").write_bytes(b"".join(left))
        with pytest.raises(UsageError, match=r"line \d+: the rest of the history is missing"):
            read(tmp_path / "run.jsonl")


def test_merged_history_records_a_dead_worker(tmp_path: Path, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])
    merge(read_parts([path]), tmp_path / "merged")
    merged = read(tmp_path / "merged")
    assert not merged.complete
    assert [record["kind"] for record in merged.records[-2:]] == ["broken-off", "end"]
    assert merged.records[-2]["torn"].startswith('{"kind":"end"')
    assert len(verdicts(tmp_path / "merged")) == 4


def test_worker_that_died_immediately_is_merged_as_dead(tmp_path: Path, path: Path) -> None:
    (tmp_path / "gw1.jsonl").write_bytes(b'{"ki')
    merge(read_parts([path, tmp_path / "gw1.jsonl"]), tmp_path / "merged")
    merged = read(tmp_path / "merged")
    assert not merged.complete
    assert [(r["worker"], r["torn"]) for r in merged.records if r["kind"] == "broken-off"] == [("gw1", '{"ki')]
    assert len(verdicts(tmp_path / "merged")) == 4


def test_a_changed_part_is_not_merged(tmp_path: Path, path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"seed":7', b'"seed":8'))
    with pytest.raises(UsageError, match="line 2"):
        merge(read_parts([path]), tmp_path / "merged")


def test_every_line_is_plain_json(path: Path) -> None:
    for line in path.read_bytes().splitlines():
        assert {"kind", "mono", "wall", "digest"} <= orjson.loads(line).keys()


def test_sentence_that_reads_like_a_judgement_is_not_parsed_as_one(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        judgement = history.compare("KEP-1/x", "hints of a1", expected=["a"], observed=None)
        facts = {"level": "MUST", "profile": "service-proxy", "core": True, "number": 0}
        history.verdict("KEP-1/x", "call", judgement.verdict, judgement.message, **facts)
    assert judge(read(tmp_path / "h").records, tmp_path / "h").causes() == {"KEP-1/x": VerdictCause.OWN_CODE}


def test_rates_of_a_history_are_those_that_were_written() -> None:
    rates = Rates(leak=0.1, miss=0.001, alone=0.3, chances=3, alarm=0.002)
    assert read_rates(as_json(rates)) == rates
    assert read_rates({"leak": 0.05, "miss": 1e-6}).samples(5) == 270  # older release: no shared leak detection
    assert read_rates({"leak": 0.05, "miss": 1e-6}).alarm == 1e-6  # older release: one limit for both errors


def test_a_scenario_states_the_largest_of_its_smallest_faults(tmp_path: Path) -> None:
    record = ScenarioRecord("t")
    with History(tmp_path / "history.jsonl") as history:
        record.windows.append(("one", history.window("KEP-1/x", {"a1": {"a1"}}), ()))
        record.windows.append(("two", history.window("KEP-1/x", {"a1": {"a1"}, "b1": {"b1"}}), ()))

    check = record.as_json()["check"]
    assert (check["samples"], check["smallestFault"]) == (283, "5% leak at 2 clients, 20% leak at one")


def test_nothing_is_written_while_a_test_is_repeated(tmp_path: Path) -> None:
    with History(tmp_path / "run.jsonl") as history:
        history.change("before")
        with history.set_aside():
            history.change("while repeated")
            history.write("took", test="KEP-1/a", parameters="", seconds=1.0, start=0.0)
        history.change("after")
    kinds = [json.loads(line).get("what") for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert kinds == [None, "before", "after", None]
    assert [each.what for each in history.changes] == ["before", "after"]


def test_long_observed_value_is_cut_and_still_judged_as_unequal(tmp_path: Path) -> None:
    expected = {"stays": "no hints"}
    observed = {f"pod-{number}": "x" * 200 for number in range(5_000)} | {"stays": "zones=a"}
    path = tmp_path / "run.jsonl"
    with History(path) as history:
        judgements = [
            history.compare("a", "hints", expected=expected, observed=observed),
            history.compare("a", "names", expected=["a"], observed=[*observed]),
            history.compare("a", "answer", expected="ok", observed="x" * 100_000),
            history.compare("a", "as long", expected=observed, observed=observed),
        ]
        assert [each.verdict for each in judgements] == [Verdict.FAILED] * 3 + [Verdict.PASSED]
    assert all(len(each.message) < 50_000 for each in judgements)
    compared = [each for each in map(orjson.loads, path.read_bytes().splitlines()) if each["kind"] == "comparison"]
    hints, names, answer, as_long = (each["observed"] for each in compared)
    assert (hints["stays"], hints["…"]) == ("zones=a", f"{len(observed) - len(hints) + 1:,} more")
    assert names[-1] == f"… {len(observed) - len(names) + 1:,} more"
    assert (answer[-1], as_long) == ("…", observed)
