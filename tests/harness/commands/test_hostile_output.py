"""Tests that text from judged components never commands a terminal, a page or the runner of a CI job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner

from harness.commands.main import main
from harness.errors import DistrustError
from harness.plugin import recorder
from harness.plugin.recorder import Recorder
from tests.harness.ci_runner_commands import HOSTILE, MARKUP, PLANTED, commands, controls

SUITE = f"""
import logging, sys
import pytest
from harness.errors import InconclusiveError
from harness.judging.verdict import Verdict
from harness.model.requirements import MUST, SHOULD, Feature, Profile, requirement

FEATURES = [Feature("Routing", Profile.SERVICE_PROXY, True, "")]
PLANTED = {PLANTED!r}

def demand(name, level=MUST):
    return requirement(f"KEP-1/{{name}}", "A.", level=level, source="KEP-1", features=FEATURES)

def speak():
    print(PLANTED)
    print(PLANTED, file=sys.stderr)
    logging.getLogger("kube-proxy").error(PLANTED)

@demand("fails")
def test_fails():
    speak()
    assert not PLANTED, PLANTED

@demand("errs")
def test_errs():
    speak()
    raise ValueError(PLANTED)

@demand("skips")
def test_skips():
    pytest.skip(PLANTED)

@demand("inconclusive", SHOULD)
def test_inconclusive():
    raise InconclusiveError(PLANTED)

@demand("passes")
def test_passes():
    speak()
"""
COMMAND = [sys.executable, "-c", "from harness.commands.main import main; main(prog_name='trafficdist')"]
WAYS = {
    "run": [*COMMAND, "run", "--suite", "test_suite.py"],
    "run -v": [*COMMAND, "run", "--suite", "test_suite.py", "-v"],
    "two workers": [*COMMAND, "run", "--suite", "test_suite.py", "-n", "2"],
    "pytest": [
        sys.executable,
        "-m",
        "pytest",
        "--td-backend=netns",
        "-p",
        "no:hypothesispytest",
        "-rA",
        "test_suite.py",
    ],
}


def output_from(command: list[str], folder: Path, **more: str) -> str:
    """Return all that a command prints, as one file like the log of a CI job."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    ours = {"LANG": "C.UTF-8", "XDG_CACHE_HOME": str(folder / "cache"), **more}
    done = subprocess.run(
        command, cwd=folder, env=kept | ours, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100, check=False
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def check(said: str) -> None:
    assert "planted" in said
    assert commands(said) == []
    assert controls(said) == set()


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the results of one run."""
    place = tmp_path_factory.mktemp("run")
    (place / "test_suite.py").write_text(SUITE)
    output_from([*WAYS["run"], "--output-dir=out"], place)
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_output_of_a_run_has_no_commands(folder: Path, way: str) -> None:
    check(output_from([*WAYS[way], *(["--td-output-dir=out"] if way == "pytest" else ["--output-dir=out"])], folder))
    check_folder(folder / "out")


@pytest.mark.parametrize("command", ["judge out", "judge out --format=json", "report out --markdown"])
def test_output_of_the_other_commands_has_no_commands(one_run: Path, command: str) -> None:
    check(output_from([*COMMAND, *command.split()], one_run))


def test_last_words_of_a_worker_have_no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that cannot continue writes to its standard error directly."""
    written: list[bytes] = []

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(recorder, "os", SimpleNamespace(write=lambda _, text: written.append(text), _exit=end))
    told = DistrustError(PLANTED)
    with pytest.raises(SystemExit):
        Recorder(cast("Any", SimpleNamespace(worker="gw0"))).pytest_internalerror(
            pytest.ExceptionInfo.from_exc_info((type(told), told, None))
        )
    check(b"".join(written).decode())


def check_folder(out: Path) -> None:
    """The report, the page and JUnit show the text as text."""
    report = yaml.safe_load((out / "report.yaml").read_text(encoding="utf-8"))
    assert any(HOSTILE[0] in str(each) for each in report["tests"])
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "planted" in page
    for element in ("<script>planted", "<img src=x", "href=javascript", 'href="javascript'):
        assert element not in page
    assert not controls(page)
    junit = (out / "junit.xml").read_text(encoding="utf-8")
    assert not controls(junit)
    assert MARKUP in "".join(ElementTree.fromstring(junit).itertext())


def test_colours_of_the_suite_stay(folder: Path) -> None:
    said = output_from([*WAYS["run -v"], "--output-dir=out", "--", "--color=yes"], folder)
    check(said)
    assert "\x1b[3" in said


@pytest.mark.parametrize("command", [["explain", "web"], ["doctor", "--backend", "kubeconfig"], ["cleanup"]])
def test_names_in_a_kubeconfig_have_no_effect(tmp_path: Path, command: list[str]) -> None:
    context = {"name": PLANTED, "context": {"cluster": PLANTED, "user": PLANTED}}
    (tmp_path / "config").write_text(yaml.safe_dump({"contexts": [context], "clusters": [], "users": []}))
    for chosen in ("x", PLANTED):
        asked = [*command, "--kubeconfig", str(tmp_path / "config"), "--context", chosen]
        check(CliRunner().invoke(main, asked).output)
