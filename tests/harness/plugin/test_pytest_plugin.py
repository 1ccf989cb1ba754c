"""Tests exit codes, selection with reasons, and one verdict for each requirement, with and without workers."""

from __future__ import annotations

import re
import sys
import types
from typing import Any

import pytest

pytest_plugins = ["pytester"]

PARAMETRIZED = """
@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
@must("KEP-1/both-families")
def test_both(family):
    assert family == "IPv4"
"""

LIMITED = """
@must("KEP-1/limited")
def test_limited(pytestconfig):
    assert pytestconfig.getoption("timeout") == {}
"""

DUAL_STACK = """
@must("KEP-1/dual-stack", Feature("DualStack", Profile.ENDPOINTSLICE_CONTROLLER, False, "Both."))
def test_dual_stack():
    pass
"""

EXTENDED = """
@must("KEP-2/node-first", EXTENDED)
def test_node():
    pass

@must("KEP-2/names", API)
def test_names():
    pass
"""

KILLERS = """
def finds(slug, *mutants):
    return requirement(f"KEP-1/{slug}", "Finds.", level=MUST, features={CORE}, source="KEP-1, Design", kills=mutants)

@finds("finds-one", "a")
def test_one():
    pass

@finds("finds-two", "a", "b")
def test_two():
    pass

@finds("finds-another", "c")
def test_another():
    pass
"""

BROKEN_FIXTURE = """
@pytest.fixture
def broken():
    assert False

@must('KEP-1/set-up')
def test_set_up(broken):
    pass
"""

CRASHING_FIXTURE = """
@pytest.fixture
def crashing():
    yield
    os._exit(9)

@pytest.mark.parametrize("family", ["IPv4"])
@must("KEP-1/both-families")
def test_both(family, crashing):
    assert False, "wrong"
"""

IN_THE_WAY = """
@must("KEP-1/in-the-way")
def test_in_the_way():
    pathlib.Path("out/evidence").write_text("")
    assert False, "wrong"
"""

WITNESS = """
class Cluster:
    up = True
    def evidence(self): return {"rules.nft": "up" if self.up else "down", "../../x": "no escape"}
    def judgement(self): return {"check": {"kind": "allowed-set", "samples": 270}, "observed": {"a1": {"a1": 270}}}
    def environment(self): return {"servers": {"apiserver": "v1.37"}, "featureGates": {}}

@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.up = False

@must("KEP-3/explained")
def test_explained(cluster):
    assert False, "wrong"
"""


STUCK = """
class Cluster:
    def evidence(self):
        yield "first.txt", "this came"
        yield "large.txt", "line\\n" * 200_000
        threading.Event().wait()

@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr("harness.plugin.evidence.SECONDS", 0.3)
    return Cluster()

@must("KEP-3/stuck")
def test_stuck(cluster):
    assert False, "wrong"
"""


@pytest.mark.parametrize(
    ("names", "options", "code"),
    [
        (("passes",), (), 0),
        (("passes", "fails"), (), 1),
        (("passes", "fails", "inconclusive", "unavailable"), (), 1),
        (("passes", "inconclusive"), (), 10),
        (("passes", "breaks"), (), 10),
        (("inconclusive", "unavailable"), (), 10),
        (("passes", "unavailable"), (), 11),
        (("passes", "ineligible"), (), 11),
        (("passes", "distrusts"), (), 12),
        (("fails", "distrusts"), (), 12),
        (("passes", "interrupts", "fails"), (), 2),
        ((), (), 5),
        (("passes",), ("--td-profile=dns",), 5),
        (("passes", "fails"), ("--td-warnings-as-errors",), 1),
        (("passes", "fails"), ("--td-run-test=KEP-1/pass*",), 0),
        (("passes", "fails"), ("--td-skip-tests=KEP-1/fails",), 0),
        (("passes",), ("--td-run-test=KEP-1/pases",), 4),
        (("passes",), ("--td-supported-features=Nothing",), 4),
        (("passes",), ("--td-output-dir=/proc/no/such",), 12),
    ],
)
def test_exit_code_follows_from_the_outcome(
    certify: Any, names: tuple[str, ...], options: tuple[str, ...], code: int
) -> None:
    run = certify(*names, options=options)
    assert run.code == code, run.text


@pytest.mark.parametrize(
    ("names", "options", "code"),
    [
        (("passes", "fails", "inconclusive", "unavailable"), (), 1),
        (("passes", "inconclusive"), (), 10),
        (("passes", "crashes"), (), 10),
        (("passes", "crashes", "fails"), (), 1),
        (("passes", "distrusts"), (), 12),
        (("passes",), ("--td-run-test=KEP-1/pases",), 4),
        (("passes",), ("--td-profile=dns",), 5),
    ],
)
def test_workers_end_with_the_same_exit_codes(
    certify: Any, names: tuple[str, ...], options: tuple[str, ...], code: int
) -> None:
    run = certify(*names, options=("-n2", *options))
    assert run.code == code, run.text


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--td-run-test=KEP-1/pases",), 4, "unknown requirement 'KEP-1/pases'"),
        (("--td-skip-tests=*", "-n2"), 5, "no requirement was selected: named by --skip-tests"),
        (("-k", "nothing"), 5, "no requirement was selected"),
        (("-k", "passes"), 12, "there is no `kind`"),
    ],
)
def test_no_cluster_is_made_for_a_run_that_selects_nothing(
    certify: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int, said: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("TRAFFICDIST_CACHE", "/nowhere")
    run = certify("passes", "fails", options=("--td-backend=kind", "--td-supported-features=Routing", *options))
    assert (run.code, said in run.text, run.folder.exists()) == (code, True, False), run.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--td-backend=cloud"], "unknown value 'cloud'; allowed: netns, kubeconfig, kind"),
        (["--td-backend=nets"], "--backend: unknown value 'nets'; allowed: netns"),
        (["--td-proxy=reference"], "--td-backend: choose where to run; available: netns"),
        (["--td-backend=netns", "--td-topology=four"], "--topology: unknown topology 'four'"),
        (["--td-backend=netns", "--td-families=IPv4,IPv5"], "--families: unknown value 'IPv5'; allowed: IPv4, IPv6"),
        (["--td-backend=netns", "--td-time-scale=0"], "--time-scale: '0' is not a number above 0"),
        (["--td-backend=netns", "--td-options-file=absent.yaml"], "options file absent.yaml: cannot be read"),
        ([], "set where to run it, for example --td-backend=netns"),
    ],
)
def test_usage_error_exits_with_4_and_shows_the_cause(pytester: pytest.Pytester, options: list[str], said: str) -> None:
    pytester.makepyfile(
        "from harness.model.requirements import *\n"
        "@requirement('KEP-1/a', 'A.', level=MUST, source='KEP-1',\n"
        "             features=[Feature('Routing', Profile.SERVICE_PROXY, True, '')])\n"
        "def test_a(): pass"
    )
    result = pytester.runpytest_inprocess(*options)
    assert result.ret == 4
    assert said in result.stderr.str() + result.stdout.str()
    assert not (pytester.path / "trafficdist-results").exists()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_requirement_has_the_worst_verdict_of_its_cases(certify: Any, workers: str) -> None:
    run = certify("passes", extra=PARAMETRIZED, options=(f"--td-workers={workers}",))
    assert run.verdicts == {"passes": "passed", "both-families": "failed"}
    (test,) = (each for each in run.report["tests"] if each["id"] == "KEP-1/both-families")
    assert [(case["parameters"], case["verdict"]) for case in test["cases"]] == [("IPv4", "passed"), ("IPv6", "failed")]


def test_skipped_requirement_is_reported_with_its_reason(certify: Any) -> None:
    run = certify(
        "passes",
        "unavailable",
        extra=EXTENDED,
        options=("--td-profile=service-proxy", "--td-exempt-features=PreferSameNode"),
    )
    reasons = {test["id"]: test["reason"] for test in run.report["tests"]}
    assert reasons == {
        "KEP-1/passes": "",
        "KEP-1/unavailable": "unavailable",
        "KEP-2/node-first": "unsupported",
    }
    assert run.report["run"]["deselected"] == {"profile api-server is not selected": 1}
    assert "there is no tool" in run.text


def test_dual_stack_requirement_is_skipped_on_a_single_stack_cluster(certify: Any) -> None:
    for families, expected in (("IPv4", "unavailable"), ("IPv6,IPv4", "")):
        run = certify("passes", extra=DUAL_STACK, options=(f"--td-families={families}",))
        assert {test["id"]: test["reason"] for test in run.report["tests"]}["KEP-1/dual-stack"] == expected


def test_pytests_own_deselection_is_reported_too(certify: Any) -> None:
    run = certify("passes", "fails", options=("-k", "passes"))
    assert (run.code, run.verdicts) == (0, {"passes": "passed"})
    assert run.report["run"]["deselected"] == {"by pytest's own options": 1}
    core = run.report["profiles"][0]["core"]
    assert (core["result"], core["statistics"]["Skipped"], core["skippedTests"]) == ("partial", 1, ["KEP-1/fails"])
    assert "requirements were deselected" in run.report["run"]["certifiableReasons"]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_requirements_excluded_by_options_are_counted_and_not_listed(certify: Any, workers: str) -> None:
    options = ("--td-run-test=KEP-1/passes", f"--td-workers={workers}")
    run = certify("passes", "fails", "unavailable", options=options)
    assert (run.code, run.verdicts) == (0, {"passes": "passed"})
    assert run.report["run"]["deselected"] == {"not named by --run-test": 2}
    assert "Excluded by the options of this run: 2 (not named by --run-test)\n" in run.text
    assert "KEP-1/fails" not in run.text
    assert (run.folder / "junit.xml").read_text().count("<testcase") == 1
    assert len(list((run.folder / "allure-results").glob("*-result.json"))) == 1


@pytest.mark.parametrize("workers", ["0", "2"])
def test_quick_run_selects_requirements_that_kill_most_mutants(certify: Any, workers: str) -> None:
    run = certify("passes", extra=KILLERS, options=("--td-quick", f"--td-workers={workers}"))
    said = "2 of 4 requirements, known to find 3 of 3 mutants"
    assert (run.code, run.verdicts) == (0, {"finds-two": "passed", "finds-another": "passed"})
    assert f"  quick        {said}\n" in run.text
    told = run.report["run"]
    chosen = {"requirements": 2, "of": 4, "mutants": 3, "ofMutants": 3}
    assert {key: told["quick"][key] for key in chosen} == chosen
    assert told["deselected"] == {"not chosen by --quick": 2}
    assert (told["certifiable"], f"--quick chose {said}" in told["certifiableReasons"]) == (False, True)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_quick_run_of_requirements_without_mutants_is_a_usage_error(certify: Any, workers: str) -> None:
    run = certify("passes", options=("--td-quick", f"--td-workers={workers}"))
    assert (run.code, "none of 1 requirements detects a mutant" in run.text, run.folder.exists()) == (4, True, False)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_requirement_is_shown_after_its_last_selected_case(certify: Any, workers: str) -> None:
    run = certify(extra=PARAMETRIZED, options=("-k", "IPv6", f"--td-workers={workers}"))
    assert re.search(r"^  \S (KEP-1/)?both-families +\d\.\d+ s$", run.text, re.MULTILINE), run.text


@pytest.mark.parametrize("workers", ["0", "2"])
def test_evidence_is_gathered_while_the_cluster_is_up(certify: Any, workers: str) -> None:
    run = certify(extra=WITNESS, options=("-n", workers))
    evidence = run.folder / "evidence/KEP-3/explained"
    assert (evidence / "rules.nft").read_text() == "up"
    assert sorted(path.name for path in evidence.iterdir()) == ["_.._x", "explanation.txt", "rules.nft"]
    (test,) = run.report["tests"]
    assert (test["check"]["samples"], test["observed"]) == (270, {"a1": {"a1": 270}})
    assert run.report["kubernetesVersion"] == "v1.37"


def test_late_evidence_is_abandoned_and_the_verdict_stays(certify: Any) -> None:
    run = certify(extra=STUCK)
    evidence = run.folder / "evidence/KEP-3/stuck"
    assert (run.code, run.verdicts) == (1, {"stuck": "failed"})
    assert (evidence / "first.txt").read_text() == "this came"
    assert 300_000 < (evidence / "large.txt").stat().st_size < 400_100
    assert "letters left out" in (evidence / "large.txt").read_text()
    assert (evidence / "no-evidence-cluster.txt").read_text() == "the remaining evidence was not ready within 0.3 s"


@pytest.mark.parametrize("options", [(), ("-n2",)])
def test_a_failure_ends_with_the_command_that_runs_it_again(certify: Any, options: tuple[str, ...]) -> None:
    run = certify("passes", "fails", options=(*options, "--td-seed=7"))
    command = "pytest test_sample.py::test_fails --td-backend netns --td-seed 7"
    (failed,) = (test for test in run.report["tests"] if test["verdict"] == "failed")
    assert failed["rerun"] == command
    assert f"    Again:\n    {command}\n" in run.text
    assert (run.folder / "evidence/KEP-1/fails/explanation.txt").read_text().endswith(f"\n\nAgain:\n{command}")
    assert command in (run.folder / "junit.xml").read_text()


def test_failing_teardown_preserves_the_evidence_of_the_failure(certify: Any) -> None:
    run = certify(extra=WITNESS.replace("cluster.up = False", "cluster.up = False; assert False, 'not clean'"))
    evidence = run.folder / "evidence/KEP-3/explained"
    assert (evidence / "rules.nft").read_text() == "up"
    assert "wrong" in (evidence / "explanation.txt").read_text()
    assert "not clean" in (evidence / "teardown-explanation.txt").read_text()
    assert run.verdicts == {"explained": "failed"}


def test_unwritable_evidence_is_reported_and_the_verdict_stays(certify: Any) -> None:
    run = certify("passes", extra=IN_THE_WAY)
    assert (run.code, run.verdicts) == (1, {"passes": "passed", "in-the-way": "failed"})
    assert "The report lacks evidence of KEP-1/in-the-way: DistrustError: cannot write" in run.text
    (missing,) = run.report["run"]["missing"]
    assert "evidence/KEP-1/in-the-way/explanation.txt: Not a directory" in missing


def test_unwritten_report_is_not_named(certify: Any) -> None:
    in_the_way = IN_THE_WAY.replace('evidence").write_text("")', 'report.yaml").mkdir()')
    run = certify("passes", extra=in_the_way)
    assert run.code == 12
    assert "report.yaml: Is a directory. Choose another folder" in run.text
    assert "Report:" not in run.text


def test_interrupted_run_reports_finished_requirements(certify: Any) -> None:
    run = certify("passes", "interrupts", "fails")
    assert run.verdicts == {"passes": "passed", "interrupts": "inconclusive", "fails": "inconclusive"}
    assert run.report["run"]["interrupted"] is True
    assert "the run was interrupted" in run.report["run"]["certifiableReasons"]


def test_a_crashed_worker_is_no_failure_of_the_implementation(certify: Any) -> None:
    run = certify("passes", "crashes", options=("-n2", "--td-seed=7"))
    assert run.verdicts == {"passes": "passed", "crashes": "inconclusive"}
    assert "crashed while running" in run.text
    assert "    Again:\n    pytest test_sample.py::test_crashes --td-backend netns --td-seed 7\n" in run.text


def test_worker_crash_in_teardown_keeps_the_failure(certify: Any) -> None:
    run = certify(extra=CRASHING_FIXTURE, options=("-n1",))
    assert (run.code, run.verdicts) == (1, {"both-families": "failed"})
    (test,) = run.report["tests"]
    assert [case["parameters"] for case in test["cases"]] == ["IPv4"]


def test_skip_with_a_foreign_reason_is_unavailable(certify: Any) -> None:
    run = certify(extra="@must('KEP-1/skips')\ndef test_skips():\n    pytest.skip('ineligible: as it says')\n")
    (test,) = run.report["tests"]
    assert (run.code, test["reason"], test["message"]) == (11, "unavailable", "ineligible: as it says")


TAKES_LONG = """
@must("KEP-1/takes-long")
def test_takes_long():
    threading.Event().wait()  # goes on after an alarm that is only put off

@must("KEP-1/names-a-time-limit")
def test_names_a_time_limit():
    pytest.fail("Timeout is what this says")
"""


def test_scenario_that_takes_too_long_is_inconclusive(certify: Any) -> None:
    run = certify(extra=TAKES_LONG, options=("--timeout=0.5",))
    assert run.verdicts == {"takes-long": "inconclusive", "names-a-time-limit": "failed"}
    assert "the scenario did not end within its time limit: Timeout (>0.5s)" in run.text


def test_failure_in_setup_is_not_a_failure_of_the_implementation(certify: Any) -> None:
    run = certify(extra=BROKEN_FIXTURE)
    assert (run.code, run.verdicts) == (10, {"set-up": "inconclusive"})


def test_run_in_this_process_leaves_no_second_copy_of_a_module(certify: Any) -> None:
    certify("passes", "fails")
    packages = [module for name, module in sys.modules.items() if name.partition(".")[0] in ("harness", "reference")]
    parts = [part for package in packages for part in vars(package).values() if isinstance(part, types.ModuleType)]
    assert [part.__name__ for part in parts if sys.modules.get(part.__name__) is not part] == []


def test_duplicate_id_is_refused(certify: Any) -> None:
    run = certify("passes", extra="@must('KEP-1/passes')\ndef test_again():\n    pass\n")
    assert run.code == 4
    assert "several tests have the same requirement id: KEP-1/passes" in run.text


def test_the_summary_explains_a_failure(certify: Any) -> None:
    text = certify("passes", "fails").text
    for said in (
        "The sentence of KEP-1/fails.",
        "KEP-1, Design",
        "client a1 reached b1, want a1",
        "   0 30",
        "out/report.yaml",
    ):
        assert said in text
    assert "Traceback" not in text
    assert "\x1b" not in text


def test_unused_plugin_does_not_import_the_suite(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import sys\n"
        "def test_unused():\n"
        "    ours = {'harness.plugin.result_collector', 'harness.plugin.fixtures'}\n"
        "    costly = {'yaml', 'jsonschema', 'kubernetes', 'pyroute2', *ours}\n"
        "    assert not costly & sys.modules.keys()\n"
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize("options", [(), ("-n2",)])
def test_import_error_is_reported_as_by_pytest(certify: Any, options: tuple[str, ...]) -> None:
    certified = certify("passes", options=options, extra="\nimport no_such_module\n")
    assert "No module named 'no_such_module'" in certified.text
    assert "INTERNALERROR" not in certified.text
    assert certified.code == 12


@pytest.mark.parametrize(("options", "limit"), [(("--td-time-scale=2",), 200.0), (("--timeout=7",), 7.0)])
def test_time_limits_of_scenarios_follow_the_time_scale(certify: Any, options: tuple[str, ...], limit: float) -> None:
    extra = LIMITED.format(limit)
    assert certify("passes", extra=extra, options=("-o", "timeout=100", *options)).code == 0
