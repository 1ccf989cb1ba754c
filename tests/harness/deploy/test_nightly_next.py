"""Runs the jobs of the workflow for the next release, with their scripts unchanged.

A fake `trafficdist` lists, fetches and judges components. It calls the real program to compare reports.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.deploy.expressions import evaluate
from tests.harness.deploy.test_manifests import OF_COMMAND, options_of
from tests.harness.deploy.workflow_runner import (
    GH,
    FakeGitHub,
    StepFailedError,
    WorkflowJob,
    kept_issues,
    program,
    scheduled_run,
    workflow,
)

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
ABSENT = [program for program in ("bash", "git") if shutil.which(program) is None]
pytestmark = [
    pytest.mark.timeout(600),  # a night starts some twenty processes
    pytest.mark.skipif(bool(ABSENT), reason=f"unavailable: {', '.join(ABSENT)} is not installed"),
]

JOBS = workflow("nightly-next.yml", ROOT)["jobs"]
PLACES = {each["place"]: each for each in JOBS["judge"]["strategy"]["matrix"]["include"]}
LEFT_OUT = {"Install": "the environment of this checkout is used", "Prepare the machine": "it changes this machine"}
HEAD = "COMPONENT SERIES VERSIONS"

TRAFFICDIST = f"""#!{sys.executable}
import json, pathlib, shutil, sys
here = pathlib.Path(__file__).parent
given = json.loads((here / "given.json").read_text())
match sys.argv[1:]:
    case ["components", "list", *names, "--available"]:
        print({HEAD!r})
        for name in names:
            print(name, "1.x", *given["available"])
    case ["components", *rest]:
        with (here / "fetched.txt").open("a") as file:
            print(*rest, file=file)
    case ["run", *options]:
        folder = pathlib.Path(options[options.index("--output-dir") + 1])
        version = options[options.index("--kubernetes-version") + 1]
        assert f":{{version}}" in options[1], options
        shutil.copytree(here / "run", folder)
        place = " ".join(options)
        verdict = next((verdict for part, verdict in given["verdicts"] if part in place), "")
        if verdict:
            (folder / "report.yaml").write_text((here / "report.yaml").read_text().replace("VERDICT", verdict))
        sys.exit(next((code for part, code in given["codes"] if part in place), 1))
    case _:
        from harness.commands.main import main
        main()
"""


@dataclass
class NightlyRepository:
    """A repository with nightly runs. It contains only the scripts of this checkout."""

    folder: Path
    told: dict[str, Any] = field(default_factory=lambda: {"available": [], "verdicts": [], "codes": []})
    number: int = 0

    def job(self, name: str, needs: dict[str, Any], matrix: dict[str, str] | None = None) -> WorkflowJob:
        (self.folder / "bin/given.json").write_text(json.dumps(self.told), encoding="utf-8")
        workspace = self.folder / f"night-{self.number}" / f"{name}-{(matrix or {}).get('place', '')}"
        seen = {"github": scheduled_run(str(self.number)), "needs": needs}
        hosted = FakeGitHub(self.folder / "github", seen)
        path = f"{self.folder}/bin:{Path(sys.executable).parent}:/usr/bin:/bin"
        extra = {"PATH": path, "PYTHONPATH": str(ROOT)}
        return WorkflowJob(
            JOBS[name], hosted, workspace, self.folder / "source", matrix=matrix or {}, left_out=LEFT_OUT, extra=extra
        )

    def night(self, *available: str, places: tuple[str, ...] = tuple(PLACES)) -> WorkflowJob | None:
        """Run the jobs of one night in some places. Return the job that compares, or None if it does not run."""
        self.number += 1
        self.told["available"] = available
        first = self.job("versions", {})
        first.run()
        needs: dict[str, Any] = {"versions": {"outputs": first.outputs, "result": "success"}}
        if not evaluate(JOBS["judge"]["if"], {"needs": needs}, {}):
            assert not evaluate(JOBS["changes"]["if"], {"needs": needs}, {"cancelled": lambda: False})
            return None
        needs["judge"] = {"result": "success"}
        for place in places:
            job = self.job("judge", needs, PLACES[place])
            try:
                job.run()
            except StepFailedError:
                needs["judge"] = {"result": "failure"}
        assert evaluate(JOBS["changes"]["if"], {"needs": needs}, {"cancelled": lambda: False})
        return self.job("changes", needs)

    @property
    def issues(self) -> list[list[str]]:
        return kept_issues(self.folder / "bin")


@pytest.fixture
def nights(certify: Any, tmp_path: Path) -> NightlyRepository:
    """Return a repository before its first night. Each run has one requirement, KEP-1/passes."""
    folder = tmp_path / "nights"
    program(folder / "bin", "trafficdist", TRAFFICDIST)
    program(folder / "bin", "gh", GH)
    shutil.copytree(certify("passes").folder, folder / "bin/run")
    report = yaml.safe_load((folder / "bin/run/report.yaml").read_text(encoding="utf-8"))
    next(test for test in report["tests"] if test["id"] == "KEP-1/passes")["verdict"] = "VERDICT"
    (folder / "bin/report.yaml").write_text(yaml.safe_dump(report), encoding="utf-8")
    shutil.copytree(ROOT / ".ci", folder / "source/.ci")
    git = ["git", "-C", folder / "source", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=a"]):
        subprocess.run([*git, *command], check=True, timeout=60)
    return NightlyRepository(folder)


def run(job: WorkflowJob | None) -> str:
    """Run the job that compares. Return its summary."""
    assert job is not None
    job.run()
    return job.summary


FINAL, BETA = ("1.37.1", "1.37.2"), ("1.38.0-alpha.2", "1.38.0-beta.0")


def test_newest_pre_release_and_last_final_release_are_fetched_and_compared(nights: NightlyRepository) -> None:
    said = run(nights.night(*FINAL, *BETA, places=("kube-proxy-nftables", "kube-apiserver")))
    assert "No verdict changed." in said
    assert ("(artifacts: " in said, "(history: " in said) == (False, False), "reports are compared with all their files"
    fetched = (nights.folder / "bin/fetched.txt").read_text(encoding="utf-8").splitlines()
    assert "fetch kube-proxy 1.37.2 1.38.0-beta.0 --from release" in fetched
    assert {line.split()[1] for line in fetched} == {"kube-proxy", "kube-controller-manager", "kube-apiserver", "etcd"}
    assert nights.issues == []


def test_difference_from_the_last_final_release_opens_one_issue_per_pre_release(nights: NightlyRepository) -> None:
    nights.told["verdicts"] = [["1.38.0-beta.0 --mode iptables", "failed"], ["1.38.0-beta.1 --mode", "failed"]]
    said = run(nights.night(*FINAL, *BETA, places=("kube-proxy-nftables", "kube-proxy-iptables")))
    assert said.startswith("# Kubernetes 1.38.0-beta.0, compared with 1.37.2\n")
    row = "| kube-proxy-iptables | passed | failed |"
    assert "| kube-proxy-nftables |" not in said
    [[title, text]] = nights.issues
    assert title == "Verdict changed: KEP-1/passes"
    assert text.startswith("Kubernetes 1.38.0-beta.0, compared with 1.37.2\n\n")
    assert row in text
    assert text.endswith("https://github.example/acme/trafficdist/actions/runs/1\n")
    run(nights.night(*FINAL, *BETA, places=("kube-proxy-iptables",)))
    assert nights.issues == [[title, text]], "the same difference is not reported again"
    run(nights.night(*FINAL, *BETA, "1.38.0-beta.1", places=("kube-proxy-iptables",)))
    [[_, _, comment]] = nights.issues
    assert comment.startswith("Kubernetes 1.38.0-beta.1, compared with 1.37.2\n\n")


def test_nothing_runs_between_a_final_release_and_the_next_pre_release(nights: NightlyRepository) -> None:
    assert nights.night("1.37.2", "1.38.0-beta.0", "1.38.0-rc.1", "1.38.0") is None


@pytest.mark.parametrize("version", ["1.37.2", "1.38.0-beta.0"])
def test_unreliable_run_is_not_compared(nights: NightlyRepository, version: str) -> None:
    nights.told |= {"codes": [[f"kube-proxy:{version}", 12]], "verdicts": [["1.38.0-beta.0", "failed"]]}
    job = nights.night("1.37.2", "1.38.0-beta.0", places=("kube-proxy-nftables", "kube-apiserver"))
    said = run(job)
    assert "Some jobs ended without two reliable reports" in said
    [[_, text]] = nights.issues
    assert ("kube-apiserver" in text, "kube-proxy" in text) == (True, False)
    kept = nights.folder / "github/artifacts/1/next-kube-proxy-nftables"
    role = "final" if version == "1.37.2" else "next"
    assert {each.name for each in kept.glob(f"{role}/*report.yaml")} == {"unreliable-report.yaml"}


def test_night_without_a_reliable_pair_of_reports_fails(nights: NightlyRepository) -> None:
    nights.told["codes"] = [["1.38.0-beta.0", 12]]
    with pytest.raises(StepFailedError, match="No job of tonight left two reliable reports"):
        run(nights.night("1.37.2", "1.38.0-beta.0", places=("kube-proxy-nftables",)))


ALL = ("kube-proxy", "kube-controller-manager", "kube-apiserver")


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ("1.37.9 1.37.10 1.38.0-alpha.0", "final=1.37.10\nnext=1.38.0-alpha.0\n"),
        ("1.37.2 1.38.0-alpha.9 1.38.0-alpha.10", "final=1.37.2\nnext=1.38.0-alpha.10\n"),
        ("1.37.2 1.38.0-rc.0 1.38.0-beta.3 1.38.0-alpha.4", "final=1.37.2\nnext=1.38.0-rc.0\n"),
        ("1.38.0-rc.1 1.39.0-alpha.0 1.38.0", "final=1.38.0\nnext=1.39.0-alpha.0\n"),
        ("1.38.0-rc.1 1.38.0", "final=1.38.0\nnext=\n"),
        ("1.37.2", "final=1.37.2\nnext=\n"),
    ],
)
def test_newest_pre_release_after_the_last_final_release_is_chosen(versions: str, said: str) -> None:
    assert chosen(*(f"{name} 1.x {versions}" for name in ALL)) == (0, said)


def test_release_that_one_component_lacks_is_not_chosen() -> None:
    lines = [f"{name} 1.37 1.37.1 1.37.2\n{name} 1.38 1.38.0-alpha.0 1.38.0-beta.0" for name in ALL[1:]]
    said = chosen("kube-proxy 1.37 1.37.1", "kube-proxy 1.38 1.38.0-alpha.0", *lines)
    assert said == (0, "final=1.37.1\nnext=1.38.0-alpha.0\n")


@pytest.mark.parametrize(
    "lines", [(), ("kube-proxy 1.38 1.38.0-beta.0",), ("kube-proxy 1.37 1.37.2", "etcd 3.6 3.6.4")]
)
def test_list_without_a_common_final_release_is_an_error(lines: tuple[str, ...]) -> None:
    assert chosen(*lines) == (1, "")


def chosen(*lines: str) -> tuple[int, str]:
    """Run `.ci/next_release.py` with a table. Return its exit code and stdout."""
    command = [sys.executable, str(ROOT / ".ci/next_release.py")]
    text = "\n".join((HEAD, *lines, ""))
    ended = subprocess.run(
        command, input=text, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout


def test_runs_name_options_that_exist() -> None:
    [script] = [each["run"] for each in JOBS["judge"]["steps"] if each.get("name") == "Run"]
    _, _, words = script.partition(" .ci/judge ")
    options = options_of([*words.split(), *(word for each in PLACES.values() for word in each["options"].split())])
    assert {"kubernetes-version", "proxy"} <= options <= OF_COMMAND
