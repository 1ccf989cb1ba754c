"""Tests the `trafficdist` command: it has the plugin's options, lists requirements, and sets exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner

from harness.commands.main import main
from harness.settings.options import OPTIONS

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]


def trafficdist(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a new process."""
    return subprocess.run(
        [sys.executable, "-c", "from harness.commands.main import main; main()", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
        timeout=100,
    )


@pytest.fixture
def pack(pytester: pytest.Pytester, sample_suite: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a small suite of requirements."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "cache"))  # keeps the user's cache out of the test
    folder = pytester.mkdir("pack")
    extra = '@must("KEP-2/names", API, level=MAY)\ndef test_names():\n    pass\n'
    (folder / "test_sample.py").write_text(sample_suite("passes", "fails", extra=extra))
    (pytester.path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")  # must be ignored
    return folder


def test_run_and_plugin_have_the_same_options() -> None:
    shown = CliRunner().invoke(main, ["run", "--help"]).output
    for option in OPTIONS:
        assert (f"--{option.name} " in shown) is option.on_command_line, option.name


@pytest.mark.parametrize(("options", "code"), [([], 1), (["--skip-tests", "KEP-1/fails"], 0), (["-n", "2"], 1)])
def test_run_judges_and_reports(pack: Path, options: list[str], code: int) -> None:
    run = trafficdist("run", "--suite", str(pack), "--output-dir", "out", "--seed", "7", *options)
    assert run.returncode == code, run.stdout + run.stderr
    report = yaml.safe_load(Path("out/report.yaml").read_text(encoding="utf-8"))
    assert report["run"]["seed"] == 7
    assert {profile["name"] for profile in report["profiles"]} == {"SERVICE-PROXY", "API-SERVER"}
    assert re.search(r"^trafficdist ", run.stdout, re.MULTILINE)  # a slow machine prints a line about workers first
    assert "certifiable  no: not all of the suite was collected" in run.stdout
    head, _, _ = run.stdout.partition("KEP-1/passes")
    number = 2 if "--skip-tests" in options else 3
    assert re.search(rf"^  requirements {number}, about \d+ s$", head, re.MULTILINE), head


@pytest.mark.parametrize(
    ("options", "variables", "element"),
    [
        ([], {}, "skipped"),
        (["--", "--td-junit-warnings=failure"], {}, "failure"),
        ([], {"TRAFFICDIST_JUNIT_WARNINGS": "failure"}, "failure"),
        (["--", "--td-junit-warnings", "skipped"], {"TRAFFICDIST_JUNIT_WARNINGS": "failure"}, "skipped"),
    ],
)
def test_run_says_how_junit_shows_a_should_that_is_not_met(
    pack: Path, options: list[str], variables: dict[str, str], element: str
) -> None:
    suite, chosen = (pack / "test_sample.py"), ["--run-test", "KEP-2/asked"]
    asked = '\n@must("KEP-2/asked", API, level=SHOULD)\ndef test_asked():\n    assert False, "not met"\n'
    suite.write_text(suite.read_text(encoding="utf-8") + asked)
    run = trafficdist("run", "--suite", str(pack), *chosen, "--output-dir", "out", *options, **variables)
    assert run.returncode == 0, run.stdout + run.stderr  # the exit code does not change
    [warned] = ElementTree.parse("out/junit.xml").iter("testcase")
    assert [each.tag for each in warned] == ["properties", element, "system-out"]
    assert warned[0][1].attrib == {"name": "trafficdist.outcome", "value": "warning"}
    assert (warned.findtext("system-out") or "").startswith("warning, SHOULD failed: ")


def test_workers_need_no_folder_of_pytest_in_the_temp_folder(pack: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "pytest-of-root"
    foreign.symlink_to("/")  # pytest rejects it, as it does a folder of another user
    user = {"USER": "root", "LOGNAME": "root", "TMPDIR": str(tmp_path), "PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
    run = trafficdist("run", "--suite", str(pack), "--run-test", "KEP-1/passes", "-n", "2", "--output-dir", "o", **user)
    assert run.returncode == 0, run.stdout + run.stderr
    assert list(tmp_path.iterdir()) == [foreign]
    assert not Path("o/.parts").exists()


def test_environment_and_file_reach_the_run(pack: Path) -> None:
    Path("o.yaml").write_text("run-test: [KEP-1/passes]\nseed: 3\n")
    run = trafficdist(
        "run", "--suite", str(pack), "--options-file", "o.yaml", TRAFFICDIST_SEED="5", TRAFFICDIST_OUTPUT_DIR="there"
    )
    assert run.returncode == 0, run.stdout + run.stderr
    report = yaml.safe_load(Path("there/report.yaml").read_text(encoding="utf-8"))
    assert report["run"]["seed"] == 5
    assert "--run-test chose requirements" in report["run"]["certifiableReasons"]


def test_results_default_to_the_current_folder(pack: Path) -> None:
    assert trafficdist("run", "--suite", str(pack), "--run-test", "KEP-1/passes").returncode == 0
    assert Path("trafficdist-results/latest/report.yaml").exists()
    assert not (pack / ".pytest_cache").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--backend", "cloud"], "unknown value 'cloud'; allowed: netns, kubeconfig, kind"),
        (["run", "--no-such-option"], "No such option '--no-such-option'"),
        (["run", "--options-file", "/no/such.yaml"], "options file /no/such.yaml: cannot be read: No such file"),
        (["run", "--kubernetes-version", "1.99"], "unknown Kubernetes version '1.99': known versions are 1.17 to 1.40"),
        (["run", "--feature-gates", "Some"], "--feature-gates: feature gate 'Some': expected Name=true or Name=false"),
        (
            ["run", "--feature-gates", "Some=true"],
            "'Some' does not exist in Kubernetes 1.37, which has AllowServiceExternalIPs",
        ),
        (
            ["run", "--kubernetes-version", "1.29", "--feature-gates", "ServiceTrafficDistribution=true"],
            "'ServiceTrafficDistribution' does not exist in Kubernetes 1.29, which has NFTablesProxyMode, Proxy",
        ),
        (["run", "--follow", "both"], "--follow: unknown value 'both'; allowed: kep, released"),
        (["run", "--suite", "/no/such"], "there is no suite '/no/such'"),
        (["cluster", "up", "--topology", "four"], "unknown topology 'four'"),
        (["cluster", "up", "--name", "../x"], "cluster name '../x'"),
        (["cluster", "exec", "a1", "--name", "absent", "--", "true"], "cluster 'absent' is not running"),
    ],
)
def test_usage_error_exits_with_4_and_shows_the_cause(arguments: list[str], said: str, tmp_path: Path) -> None:
    run = trafficdist(*arguments, XDG_RUNTIME_DIR=str(tmp_path))
    assert run.returncode == 4, run.stdout + run.stderr
    assert said in run.stdout + run.stderr
    assert "Traceback" not in run.stderr


def test_unknown_requirement_suggests_the_nearest(pack: Path) -> None:
    run = trafficdist("run", "--suite", str(pack), "--run-test", "KEP-1/pases")
    assert run.returncode == 4
    assert "unknown requirement 'KEP-1/pases'; did you mean KEP-1/passes" in run.stderr + run.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["KEP-3015/none"], "error: unknown requirement 'KEP-3015/none'; did you mean KEP-3015/"),
        (["--run-test", "KEP-3015/none"], "error: unknown requirement 'KEP-3015/none'; did you mean KEP-3015/"),
        (["--skip-tests", "KEP-3015/none"], "error: --skip-tests: unknown requirement 'KEP-3015/none'; did you mean"),
        (["--backend", "kubeconfig", "--kubeconfig", "/no/such", "KEP-3015/none"], "error: unknown requirement"),
    ],
)
def test_unknown_requirement_of_the_published_suite_is_refused_before_pytest_and_the_suite_load(
    arguments: list[str], said: str
) -> None:
    code = "import sys, harness.commands.main as m\ntry: m.main()\nfinally: print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code, "run", *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (run.returncode, run.stderr.startswith(said)) == (4, True), run.stderr
    loaded = run.stdout.split()
    assert {"pytest", "kubernetes", "pyroute2"}.isdisjoint(loaded)
    assert not [each for each in loaded if each.startswith("conformance.") and ".test_" in each]


def test_list_prints_the_catalogue_in_both_formats(pack: Path) -> None:
    texts = {form: trafficdist("list", "--suite", str(pack), "--format", form).stdout for form in ("json", "table")}
    catalogue = json.loads(texts["json"])
    assert [row["id"] for row in catalogue["requirements"]] == ["KEP-1/fails", "KEP-1/passes", "KEP-2/names"]
    assert catalogue["requirements"][2]["level"] == "MAY"
    assert "KEP-2/names" in texts["table"]


def test_a_suite_that_cannot_be_collected_is_not_listed(pytester: pytest.Pytester) -> None:
    (pytester.mkdir("pack") / "test_broken.py").write_text("import no_such_module\n")
    run = trafficdist("list", "--suite", "pack")
    assert run.returncode == 12
    assert "no_such_module" in run.stderr


def test_the_installed_suite_works_outside_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    listed = trafficdist("list", "--format", "json")
    assert listed.returncode == 0, listed.stderr
    ids = [row["id"] for row in json.loads(listed.stdout)["requirements"]]
    assert len(ids) == len(set(ids)) >= 30
