"""Runs each step of both jobs of the nightly workflow, unchanged, on kind clusters with the local node image.

The checkout is a clean clone. The environment of a step selects a few requirements and two nodes, so its script is
unchanged. Without access to packages, the environment of this checkout replaces the step that installs one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.backends.kind.checks import find_kind
from harness.binaries.cache import default_folder
from tests.harness.deploy.workflow_runner import (
    GH,
    SUDO,
    FakeGitHub,
    WorkflowJob,
    kept_issues,
    program,
    scheduled_run,
    workflow,
)
from tests.harness.report.npm import ALLURE

ROOT = Path(__file__).resolve().parents[3]
ABSENT = [program for program in ("bash", "git") if shutil.which(program) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(bool(ABSENT), reason=f"unavailable: {', '.join(ABSENT)} is not installed"),
]

MODES = ("nftables", "iptables")
KNOWN = "KEP-4444/each-port-is-judged-on-its-own"
FEW = {
    "TRAFFICDIST_RUN_TEST": f"{KNOWN},KEP-2086/policy-changes-on-a-live-service,KEP-4444/api-stores-the-field",
    "TRAFFICDIST_PROFILE": "service-proxy,api-server",
    "TRAFFICDIST_TOPOLOGY": "a=1,b=1",
    "TRAFFICDIST_FAMILIES": "IPv4",
}
ALLURE_STEP = "Write the Allure report"
SETTINGS = {"Raise limits for six nodes": "it changes settings of this machine"}
WORDS = ("name", "uses", "run")  # keys that name a step, in order of preference


def unreachable(*hosts: str) -> str:
    """Return the reason why steps that download packages cannot run, or ""."""
    for host in hosts:
        try:
            socket.create_connection((host, 443), timeout=5).close()
        except OSError as error:
            return f"{host} cannot be reached ({error.strerror or error})"
    return ""


def cannot_install() -> str:
    """Return the reason why the steps that install cannot run, or ""."""
    return "go is not installed" if shutil.which("go") is None else unreachable("pypi.org", "proxy.golang.org")


def fresh_python(folder: Path) -> dict[str, str]:
    """Return the result of actions/setup-python and setup-go: a Python without packages, and an empty GOPATH."""
    subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True, timeout=120)
    modules = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    path = f"{folder}/python/bin:{os.environ['PATH']}"
    return {"PATH": path, "GOPATH": f"{folder}/go", "GOMODCACHE": modules}


def without_allure(folder: Path) -> dict[str, str]:
    """Return the step that needs Node and Allure if they are missing. npx finds a cached Allure in parent folders."""
    if shutil.which("npx") is None:
        return {ALLURE_STEP: "npx is not installed"}
    reason = unreachable("registry.npmjs.org")
    cached = default_folder() / f"npm-{ALLURE.replace('@', '-')}/node_modules"
    if not reason or not (cached / ".bin/allure").exists():
        return {ALLURE_STEP: reason} if reason else {}
    (folder / "node_modules").symlink_to(cached)
    return {}


def installing(job: Any) -> str:
    """Return the name of the step that installs the suite."""
    return next(str(each.get("name", each["run"])) for each in job["steps"] if ".ci/install" in each.get("run", ""))


@dataclass(frozen=True)
class NightlyRuns:
    """The nightly runs of one repository. Each job runs in a separate folder."""

    folder: Path

    def job(self, name: str, night: str, *, matrix: Any = None, left_out: Any = None, **variables: str) -> WorkflowJob:
        """Return a job of one nightly run. Without access to packages it uses the environment of this checkout."""
        text = workflow("nightly-kind.yml", ROOT)["jobs"][name]
        workspace = self.folder / f"night-{night}" / f"{name}-{(matrix or {}).get('mode', '')}"
        programs = os.environ["PATH"]
        left = {**SETTINGS, **(left_out or {})}
        if reason := cannot_install():
            left[installing(text)] = f"{reason}: the environment of this checkout is used"
            programs = f"{Path(sys.executable).parent}:{find_kind()[0].parent}:{programs}"
            variables |= {"PYTHONPATH": str(workspace)}
        else:
            variables |= fresh_python(workspace.parent / f"{workspace.name}-tools")
            programs = variables["PATH"]
        variables["PATH"] = f"{self.folder}/bin:{programs}"
        seen = {"github": scheduled_run(night), "needs": {"kind": {"result": "success"}}}
        hosted = FakeGitHub(self.folder / "github", seen)
        return WorkflowJob(text, hosted, workspace, ROOT, matrix=matrix or {}, left_out=left, extra=variables)

    def artifact(self, night: str, mode: str) -> Path:
        return self.folder / "github/artifacts" / night / f"night-1.34-{mode}"

    def changes(self, night: str) -> str:
        """Run the job that compares two nightly runs. Return its summary."""
        job = self.job("changes", night)
        job.run()
        return job.summary

    @property
    def issues(self) -> list[list[str]]:
        return kept_issues(self.folder / "bin")

    def again_but(self, night: str, verdict: str) -> None:
        """Add a nightly run with the artifacts of the first one, but with another verdict on one requirement."""
        for mode in MODES:
            shutil.copytree(self.artifact("1", mode), self.artifact(night, mode))
        report = self.artifact(night, "nftables") / "results/report.yaml"
        text = yaml.safe_load(report.read_text(encoding="utf-8"))
        next(each for each in text["tests"] if each["id"] == KNOWN)["verdict"] = verdict
        report.write_text(yaml.safe_dump(text), encoding="utf-8")


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> NightlyRuns:
    """Return the state before the first nightly run."""
    folder = tmp_path_factory.mktemp("nights")
    program(folder / "bin", "gh", GH)
    program(folder / "bin", "sudo", SUDO)
    return NightlyRuns(folder)


@pytest.fixture(scope="module")
def first(nights: NightlyRuns, node_image: str) -> dict[str, WorkflowJob]:
    """Run job `kind` of the first night in both modes.

    One mode probes with agnhost instead of packets.
    """
    left_out = without_allure(nights.folder)
    jobs = {}
    for mode in MODES:
        matrix = {"mode": mode, "kubernetes": {"minor": "1.34", "image": node_image}}
        way = {"TRAFFICDIST_PROBES": "agnhost"} if mode == "iptables" else {}
        jobs[mode] = nights.job("kind", "1", matrix=matrix, left_out=left_out, **FEW, **way)
        jobs[mode].run()
        print(mode, json.dumps(jobs[mode].told, indent=1))  # noqa: T201  which steps ran here, and which did not
    return jobs


@pytest.mark.parametrize(("name", "programs"), [("kind", ("trafficdist", "kind")), ("changes", ("trafficdist",))])
def test_a_job_installs_what_it_runs(nights: NightlyRuns, name: str, programs: tuple[str, ...]) -> None:
    if reason := cannot_install():
        pytest.skip(f"unavailable: {reason}")
    job = nights.job(name, "0", matrix={"mode": "nftables", "kubernetes": {"minor": "1.34", "image": ""}})
    used = (str(each.get("uses", "")) for each in job.text["steps"])
    wanted = (next(each for each in used if each.startswith("actions/checkout@")), installing(job.text))
    job.text = {"steps": [each for each in job.text["steps"] if {each.get(key) for key in WORDS} & {*wanted}]}
    job.run()
    assert job.told == dict.fromkeys(wanted, "ran")
    for each in programs:
        path = str(shutil.which(each, path=job.environment()["PATH"]))
        assert path.startswith(str(nights.folder))
        assert subprocess.run([path, "--version"], env=job.environment(), check=False, timeout=60).returncode == 0


def check_artifact(artifact: Path, mode: str, *, allure: bool) -> None:
    """Check the artifact of one run, which has all verdicts and the Allure report."""
    report = yaml.safe_load((artifact / "results/report.yaml").read_text(encoding="utf-8"))
    assert {test["id"]: test["verdict"] for test in report["tests"] if test["verdict"] != "skipped"} == dict.fromkeys(
        FEW["TRAFFICDIST_RUN_TEST"].split(","), "passed"
    )
    assert report["mode"] == mode
    assert (artifact / "allure-report/index.html").exists() == allure


def test_nightly_workflow_runs_and_a_change_opens_an_issue(nights: NightlyRuns, first: dict[str, WorkflowJob]) -> None:
    for mode, job in first.items():
        check_artifact(nights.artifact("1", mode), mode, allure=ALLURE_STEP not in job.left_out)
    summary = nights.changes("1")
    assert "This is the first night." in summary
    assert ("(artifacts: " in summary, "(history: " in summary) == (False, False), (
        "reports are kept with all their files"
    )
    assert nights.issues == []
    nights.again_but("2", "failed")
    assert f"| `{KNOWN}` | 1.34-nftables | passed | failed |" in nights.changes("2")
    [[title, text]] = nights.issues
    assert title == f"Verdict changed: {KNOWN}"
    assert text.endswith("https://github.example/acme/trafficdist/actions/runs/2\n")
    nights.again_but("3", "passed")
    nights.changes("3")
    [[_, _, comment]] = nights.issues
    assert "| failed | passed |" in comment
