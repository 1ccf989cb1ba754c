"""Tests that the verdicts derived from a history equal those of the run, and that a damaged history is rejected."""

from __future__ import annotations

import json
import lzma
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.commands.main import main
from harness.judging.history import sealed
from harness.judging.history_file import packed

pytest_plugins = ["pytester"]

JUDGED = """
from harness.judging.conclusion import raise_for
from harness.model.outcomes import TIMED_OUT, Reached
from harness.judging.statistics import Rates
from harness.judging.verdict import AnyOf, Verdict

def compare(history, observed, unknown=""):
    judgement = history.compare("", "hints of a1", expected=("a", 1), observed=observed, unknown=unknown)
    if judgement.verdict is not Verdict.PASSED:
        raise_for(judgement, judgement.message + "\\n\\nthe whole table")

@must("KEP-2/as-expected")
def test_as_expected(history):
    compare(history, ["a", 1])

@must("KEP-2/otherwise")
def test_otherwise(history):
    compare(history, ["b", 1])

@must("KEP-2/not-observed")
def test_not_observed(history):
    compare(history, None, unknown="no route")

@must("KEP-2/leaks")
def test_leaks(history):
    window = history.window("", {"a1": {"a1"}, "b1": AnyOf(frozenset({"b1"}))}, Rates(0.5, 0.1))
    window.observe("a1", [Reached("a1")] * 8)
    window.observe("b1", [Reached("b1")] * 6 + [TIMED_OUT, Reached("a1")])
    judgement = window.judge()
    raise_for(judgement, judgement.message)

@pytest.mark.parametrize("family", ["IPv6", "IPv4", ""])
@must("KEP-2/each-family", EXTENDED)
def test_each_family(history, family):
    compare(history, [family, 1] if family else ["a", 1])

@must("KEP-2/tolerant")
def test_tolerant(history):
    try:
        compare(history, "too early")
    except AssertionError:
        compare(history, ["a", 1])

@pytest.fixture
def unready(history):
    compare(history, "nothing")

@must("KEP-2/not-set-up")
def test_not_set_up(unready):
    pass

@pytest.fixture
def untidy(history):
    yield
    compare(history, "a remainder")

@must("KEP-2/not-torn-down")
def test_not_torn_down(history, untidy):
    compare(history, ["a", 1])

@must("KEP-2/left-out")
def test_left_out():
    pass

@must("KEP-2/not-claimed", Feature("Other", Profile.SERVICE_PROXY, False, "Other."))
def test_not_claimed():
    pass
"""
EVERYTHING = ("passes", "fails", "inconclusive", "breaks", "unavailable", "ineligible")
SELECTED = ("--td-skip-tests=KEP-2/left-out", "--td-supported-features=PreferSameNode")
DERIVED = {"as-expected", "otherwise", "not-observed", "leaks", "each-family", "not-set-up", "not-torn-down"}


def judge(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["judge", *map(str, arguments)])


def said(report: Any) -> dict[str, tuple[str, str, str]]:
    return {test["id"]: (test["verdict"], test["reason"], test["message"]) for test in report["tests"]}


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (EVERYTHING, SELECTED),
        (EVERYTHING, (*SELECTED, "-n2")),
        (EVERYTHING, (*SELECTED, "--td-fail-fast")),
        (EVERYTHING, ("-k", "passes or left or IPv6")),
        (("passes", "interrupts", "fails"), SELECTED),
        (("passes", "crashes", "fails"), (*SELECTED, "-n2")),
        (("passes", "distrusts", "fails"), SELECTED),
        (("passes",), ("--td-run-test=KEP-1/*",)),
    ],
)
def test_derived_verdicts_equal_those_of_the_run(
    certify: Any, names: tuple[str, ...], options: tuple[str, ...]
) -> None:
    run = certify(*names, extra=JUDGED, options=options)
    result = judge(run.folder, "--format=json")
    found = json.loads(result.stdout)
    listed = said(run.report)
    assert listed == {each: told for each, told in said(found).items() if each in listed}
    counted = run.report["run"].get("deselected", {})  # tests deselected by options; the history lists each of them
    assert Counter(told[2] for each, told in said(found).items() if each not in listed) == counted
    assert (found["differences"], found["sha256"]) == ([], run.report["artifacts"][-1]["sha256"])
    assert result.exit_code == (10 if run.code == 2 else run.code)


def test_verdicts_derived_from_observations_are_distinguished(certify: Any) -> None:
    run = certify(*EVERYTHING, extra=JUDGED, options=SELECTED)
    causes = {test["id"]: test["cause"] for test in json.loads(judge(run.folder, "--format=json").stdout)["tests"]}
    assert {each for each, why in causes.items() if why == "observed"} == {f"KEP-2/{each}" for each in DERIVED}
    others = {each.partition("/")[2]: why for each, why in causes.items() if why != "observed"}
    assert others == {
        "breaks": "ended by an exception",
        "fails": "failed by the scenario's own code",
        "inconclusive": "ended by an exception",
        "ineligible": "not tried: skipped",
        "left-out": "not tried: skipped",
        "not-claimed": "not tried: skipped",
        "passes": "passed, and nothing was judged",
        "tolerant": "passed, though a judgement had not",
        "unavailable": "not tried: skipped",
    }
    text = judge(run.folder).output
    assert "16 verdicts: 7 derived again from observations, 9 as stated (4 not tried: skipped; 2 ended by" in text
    assert "hints of a1: expected ['a', 1], observed ['b', 1]\n\n    the whole table" in text
    assert "The sentence of KEP-2/otherwise." in text


MUTANT = (
    "--mutant=labels-of-services-come-late",
    "--run-test=SLICE/labels-of-the-service*",
    "--run-test=SLICE/deleted*",
)


def test_a_real_run_that_fails_is_judged_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "trafficdist-results" / "run"
    command = [str(Path(sys.executable).with_name("trafficdist")), "run", *MUTANT, f"--output-dir={out}"]
    ended = subprocess.run([*command, "--warnings-as-errors"], capture_output=True, text=True, check=False)
    again, mild = judge(out, "--warnings-as-errors"), judge(out)
    assert (ended.returncode, again.exit_code, mild.exit_code) == (1, 1, 0), ended.stdout + ended.stderr
    story = again.output[again.output.index("Warnings: ") : again.output.index(" SHOULD requirement")].rpartition("\n")[
        0
    ]
    assert story in ended.stdout
    assert story in mild.output
    assert "byte for byte" in again.output


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of all fake requirements. The first test that needs this run executes it."""
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture
def run(kept: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a copy of that run, which a test may damage."""
    if not kept.exists():
        certify = request.getfixturevalue("certify")
        shutil.copytree(certify(*EVERYTHING, extra=JUDGED, options=SELECTED).folder, kept)
    return Path(shutil.copytree(kept, tmp_path / "run"))


def test_history_report_and_latest_are_found(run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "trafficdist-results").mkdir()
    (tmp_path / "trafficdist-results" / "latest").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    content = (run / "run.jsonl").read_bytes()
    (tmp_path / "alone.jsonl.xz").write_bytes(packed(content))
    outputs = [judge(place).output.splitlines() for place in ("latest", run / "run.jsonl")]
    assert outputs[0][1:] == outputs[1][1:]
    output = judge("alone.jsonl.xz").output.splitlines()
    assert output[1:-1] == outputs[1][1:-1]
    assert output[-1] == "Each verdict and each message is the same in the history, byte for byte."


def test_killed_run_is_judged_up_to_its_last_record(run: Path) -> None:
    records = [orjson.loads(line) for line in (run / "run.jsonl").read_bytes().splitlines()]
    mine = [each for each in records if each.get("worker") == "main"]
    (run / ".parts").mkdir()
    (run / ".parts" / "history-main.jsonl").write_bytes(chained(mine) + b'{"kin')
    (run / "run.jsonl").unlink()
    (run / "report.yaml").unlink()
    result = judge(run)
    assert result.exit_code == 1
    assert "The run did not end, or a worker was killed" in result.output


def test_contradicting_report_is_detected(run: Path) -> None:
    report = yaml.safe_load((run / "report.yaml").read_text())
    next(each for each in report["tests"] if each["id"] == "KEP-2/otherwise")["message"] = "nothing much"
    (run / "report.yaml").write_text(yaml.safe_dump(report))
    result = judge(run)
    derived = "failed: hints of a1: expected ['a', 1], observed ['b', 1] is derived"
    assert result.exit_code == 12
    assert f"KEP-2/otherwise: {derived}, and report.yaml states failed: nothing much" in result.output


def chained(records: list[dict[str, Any]]) -> bytes:
    """Return these records as a history with valid digests, as a forger who knows the format would write it."""
    lines, digest = [], b""
    for record in records:
        line, digest = sealed({key: value for key, value in record.items() if key != "digest"}, digest)
        lines.append(line)
    return b"".join(lines)


def test_rechained_history_does_not_match_its_report(run: Path) -> None:
    path = run / "run.jsonl"
    records = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    forged = [{**each, "observed": each["expected"]} if each["kind"] == "comparison" else each for each in records]
    path.write_bytes(chained(forged))
    result = judge(run)
    assert result.exit_code == 4
    assert "report.yaml in the same folder belongs to another history" in result.output
    (run / "report.yaml").unlink()
    alone = judge(path)
    assert alone.exit_code == 12
    assert "KEP-2/otherwise: inconclusive: the judgement that ended this scenario passes now" in alone.output


Damage = Callable[[list[bytes], random.Random], list[bytes]]


def _remove(lines: list[bytes], chance: random.Random) -> list[bytes]:
    gone = chance.randrange(len(lines))
    return lines[:gone] + lines[gone + 1 :]


def _swap(lines: list[bytes], chance: random.Random) -> list[bytes]:
    one, other = chance.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def _repeat(lines: list[bytes], chance: random.Random) -> list[bytes]:
    again = chance.randrange(len(lines))
    return lines[:again] + lines[again:][:1] + lines[again:]


def _change(lines: list[bytes], chance: random.Random) -> list[bytes]:
    number = chance.randrange(len(lines))
    at = chance.randrange(len(lines[number]))
    changed = bytearray(lines[number])
    changed[at] ^= chance.randrange(1, 256)
    return [*lines[:number], bytes(changed), *lines[number + 1 :]]


def _cut(lines: list[bytes], chance: random.Random) -> list[bytes]:
    whole = b"".join(lines)
    return [whole[: chance.randrange(len(whole))]]


@pytest.mark.parametrize("damage", [_remove, _swap, _repeat, _change, _cut])
def test_a_damaged_history_is_refused_by_file_and_line(run: Path, damage: Damage) -> None:
    path = run / "run.jsonl"
    (run / "report.yaml").unlink()
    lines = path.read_bytes().splitlines(keepends=True)

    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(st.integers(min_value=0))
    def refused(seed: int) -> None:
        damaged = damage(list(lines), random.Random(seed))
        path.write_bytes(b"".join(damaged))
        result = judge(path)
        assert result.exit_code == 4, (seed, result.output, result.exception)
        assert str(path) in result.output
        assert "line " in result.output or "not a history" in result.output

    refused()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def test_records_that_no_run_writes_never_end_in_a_traceback(run: Path) -> None:
    path = run / "run.jsonl"
    (run / "report.yaml").unlink()
    records = [orjson.loads(line) for line in path.read_bytes().splitlines()]

    @settings(max_examples=300, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, len(records) - 1), st.integers(min_value=0), JSON, st.booleans())
    def told(number: int, which: int, value: Any, leave_out: bool) -> None:
        strange = dict(records[number])
        key = sorted(strange.keys() - {"digest"})[which % (len(strange) - 1)]
        if leave_out:
            del strange[key]
        else:
            strange[key] = value
        path.write_bytes(chained([*records[:number], strange, *records[number + 1 :]]))
        result = judge(path)
        assert result.exit_code in {1, 4, 12}, (strange, result.output)
        assert "Traceback" not in result.output

    told()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a history"),
        (b"\n", "line 1"),
        (b"no history\n", "line 1: the digest does not match"),
        (chained([{"kind": "begin", "mono": 0, "wall": 0, "version": 1}]), "line 1: has format version 1"),
        (chained([{"kind": "end", "mono": 0, "wall": 0}]), "line 1: this is not the first line"),
        (b"\x1f\x8b\x08", "not a history"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "run.jsonl").write_bytes(content)
    result = judge(tmp_path)
    assert result.exit_code == 4
    assert said in result.output


@pytest.mark.parametrize("content", [b"", b"plain", b"\xfd7zXZ", lzma.compress(b"{}" * 99)[:-9]])
def test_other_compressed_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.jsonl.xz").write_bytes(content)
    result = judge(tmp_path)
    assert result.exit_code == 4
    assert str(tmp_path / "run.jsonl.xz") in result.output


@pytest.mark.parametrize("place", ["nowhere", "empty", "latest"])
def test_folder_without_a_history_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    result = judge(place)
    assert result.exit_code == 4
    assert "expected the folder of a run, or its run.jsonl" in result.output
