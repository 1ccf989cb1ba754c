"""Interrupted runs continue, only detected faults kill mutants, and listed survivors are existing mutations."""

from __future__ import annotations

import hashlib
import itertools
import json
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mutation import __main__ as series
from tests.mutation import evaluation, line_coverage, survivors
from tests.mutation.evaluation import MutantResult
from tests.mutation.mutations import Mutation, mutations
from tests.mutation.patched_import import text_of

HINTS = "reference.endpointslice.hints"


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[evaluation.Reading]]:
    """Fake runs of mutants that record the requirements. Every second mutant survives."""
    asked: list[Sequence[evaluation.Reading]] = []

    def judge(module: str, text: str, requirements: Sequence[evaluation.Reading]) -> MutantResult:
        asked.append(requirements)
        return (
            MutantResult(evaluation.SURVIVED)
            if len(asked) % 2
            else MutantResult(evaluation.KILLED, by=requirements[0][0], seconds=2.0)
        )

    monkeypatch.setattr(evaluation, "judge", judge)
    monkeypatch.setattr(line_coverage, "known", lambda file, anew: line_coverage.ExecutedLines())
    return asked


def _run(into: Path, sample: int, *more: str) -> int:
    arguments = ["--sample", str(sample), "--module", HINTS, "--workers", "1", "--into", str(into), *more]
    return series.main(arguments)


def test_series_resumes_where_it_stopped(
    tried: list[Sequence[evaluation.Reading]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "results.jsonl"
    assert _run(into, 4, "--settled") == 1
    assert len(tried) == 4
    with into.open("a", encoding="utf-8") as file:
        file.write('{"name": ["a", "b", "c", "d", 1], "end": "lived"}\n{"name": ["a ki')
    assert _run(into, 4, "--settled") == 1
    assert len(tried) == 4
    assert _run(into, 6, "--settled") == 1
    assert len(tried) == 6
    assert "+++ b/reference/endpointslice/hints.py" in capsys.readouterr().out


def test_settled_mutants_are_tried_only_on_request(
    tried: list[Sequence[evaluation.Reading]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [each.name for each in itertools.islice(series.shuffled([HINTS], 1), 4)]
    monkeypatch.setattr(survivors, "read", lambda: {"equivalent": {names[0]: ""}, "outside": {}, "open": {}})
    _run(tmp_path / "results.jsonl", 4)
    assert len(tried) == 3
    _run(tmp_path / "results.jsonl", 4, "--settled")
    assert len(tried) == 4


def test_survivors_are_tried_again_on_request(tried: list[Sequence[evaluation.Reading]], tmp_path: Path) -> None:
    _run(tmp_path / "results.jsonl", 4)
    _run(tmp_path / "results.jsonl", 4, "--again")
    assert len(tried) == 6


def test_seed_determines_the_mutants_drawn_from_each_module() -> None:
    first = list(itertools.islice(series.shuffled(series.MODULES, 7), 60))
    assert first == list(itertools.islice(series.shuffled(series.MODULES, 7), 60))
    assert first != list(itertools.islice(series.shuffled(series.MODULES, 8), 60))
    assert [each.module for each in first[: len(series.MODULES)]] == list(series.MODULES)


def test_tests_that_killed_in_the_same_function_run_first(tmp_path: Path) -> None:
    results = series.ResultsFile(tmp_path / "results.jsonl")
    before, mutation = mutations(HINTS, text_of(HINTS))[-2:]
    results.note(before, MutantResult(evaluation.KILLED, by="KEP-4444/hints-follow-the-field"))
    assert series.MutationRunner(results, line_coverage.ExecutedLines()).order(mutation)[0] == (
        "KEP-4444/hints-follow-the-field",
        "kep",
    )


def _of(function: str) -> Mutation:
    return next(each for each in mutations(HINTS, text_of(HINTS)) if each.function == function)


def test_test_that_does_not_run_a_line_is_not_tried_on_it() -> None:
    mutation = _of("_by_annotation")
    lines = frozenset({mutation.lines[0]})
    known = {"a", "b", "c"}
    reached = line_coverage.ExecutedLines(known, {HINTS: {"a": lines, "b": frozenset({1})}})
    assert reached.executing(mutation, ["a", "b", "c", "new"]) == ["a", "new"]
    at_boot = line_coverage.ExecutedLines(known, {HINTS: {"a": lines, line_coverage.ALWAYS: lines}})
    assert at_boot.executing(mutation, ["a", "b"]) == ["a", "b"]
    assert line_coverage.ExecutedLines(known).executing(mutation, ["a", "b"]) == ["a", "b"]


def test_changed_and_deleted_modules_of_a_measurement_are_left_out(tmp_path: Path) -> None:
    digest = hashlib.sha256(text_of(HINTS).encode()).hexdigest()[:12]
    measured = {HINTS: digest, "reference.deleted": digest, "reference.proxy.decision": digest}
    file = tmp_path / "reach.json"
    modules = {module: {"digest": digest, "lines": {"a": [1, 2]}} for module, digest in measured.items()}
    file.write_text(json.dumps({"requirements": ["a"], "modules": modules}))
    assert line_coverage.known(file) == line_coverage.ExecutedLines({"a"}, {HINTS: {"a": {1, 2}}})


@pytest.mark.parametrize("kind", survivors.KINDS)
def test_each_survivor_of_the_list_is_a_mutation_and_has_a_reason(kind: str) -> None:
    listed = survivors.read()[kind]
    modules = {name[0] for name in listed}
    existing = {each.name for module in modules for each in mutations(module, text_of(module))}
    assert listed.keys() - existing == set()
    assert [name for name, reason in listed.items() if len(reason) < 20] == []


def test_summary_omits_undetermined_mutants() -> None:
    results = [
        {"end": end, "seconds": 2.0}
        for end in (evaluation.KILLED, evaluation.HUNG, evaluation.SURVIVED, evaluation.INCONCLUSIVE)
    ]
    assert "50.0% died" in series.summary(results, {})
    assert "66.7% died" in series.summary(results, {"equivalent": 1, "open": 1})


TRIED = [("KEP-4444/unsupported-value-is-not-accepted", "kep")]


@pytest.mark.timeout(60)
def test_crashing_and_hanging_mutants_are_distinguished_from_survivors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert evaluation.judge(HINTS, "raise ValueError('of old')", TRIED).text == "ValueError: of old"
    assert evaluation.judge(HINTS, "raise SystemExit(3)", TRIED).end == evaluation.BROKE
    assert (
        evaluation.judge(HINTS, f"import os, signal\nos.kill(os.getpid(), {int(signal.SIGALRM)})", TRIED).end
        == evaluation.HUNG
    )


@pytest.mark.timeout(60)
def test_externally_stopped_trial_is_undetermined() -> None:
    text = "import os, signal\nos.kill(os.getpid(), signal.{})\n"
    with pytest.raises(RuntimeError, match="signal 15"):
        evaluation.judge(HINTS, text.format("SIGTERM"), TRIED)
    assert evaluation.judge(HINTS, f"{text.format('SIGINT')}raise ValueError", TRIED).text == "ValueError: "


@pytest.mark.timeout(60)
def test_failed_verdict_kills_a_mutant_and_an_equivalent_one_survives() -> None:
    text = text_of(HINTS)
    fault = "if not _is_known(value, features):"
    assert fault in text
    killed = evaluation.judge(HINTS, text.replace(fault, "if False:"), TRIED)
    assert (killed.end, killed.by, killed.tried) == (evaluation.KILLED, TRIED[0][0], 1)
    survived = evaluation.judge(HINTS, f"{text}\n# nothing\n", TRIED)
    assert (survived.end, survived.tried, survived.inconclusive) == (evaluation.SURVIVED, 1, {})
