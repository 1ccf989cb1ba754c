"""Tests submissions to the shelf with the scripts of the workflow.

A valid submission passes, and an invalid one is rejected with its error.
"""

from __future__ import annotations

import datetime
import lzma
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.harness.report.conftest import OriginalRun
from tests.harness.report.forged_run import ForgedRun
from tools.shelf.add import add
from tools.shelf.check import check
from tools.shelf.entry import described, states

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
TODAY = datetime.datetime.now(datetime.UTC).date()

pytestmark = pytest.mark.skipif(
    not (shutil.which("git") and shutil.which("bash")), reason="unavailable: git or bash is not installed"
)


@dataclass(frozen=True)
class ForkWithReport:
    """A fork in which a report has been added to the shelf but not committed."""

    place: Path
    report: Path

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *identity, *arguments], cwd=self.place, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=x")
        return self.git("rev-parse", "HEAD")

    def change(self, name: str, old: str, new: str) -> None:
        path = self.report / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")


# A stand-in for the installed release, which has the suite of the run, and its laxest error rates (see `forged`).
TRAFFICDIST = """#!/bin/sh
[ "$1" = shelf ] && set -- "$@" --suite={suite}
[ "$1" = compare ] && [ "$SUMMARY" = no ] && exit
exec {python} -c "from harness.commands.main import main
from harness.judging.statistics import Rates
from harness.report import verification
verification.LAXEST = Rates(0.5, 0.1)
main()" "$@"
"""


@pytest.fixture
def fork(publishable: ForgedRun, kept: OriginalRun, tmp_path: Path) -> ForkWithReport:
    place = tmp_path / "fork"
    (place / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/submission.py", place / ".ci")
    target, refused = add(str(publishable.folder), place / "reports", lambda: publishable.requirements)
    assert refused == []
    fork = ForkWithReport(place, target)
    shutil.move(target, tmp_path / "added")
    fork.git("init", "--quiet")
    other = place / "reports/1.36/other-one/1-x"
    other.mkdir(parents=True)
    (other / "report.yaml").write_text("of another\n")
    release = fork.commit()
    fork.git("tag", "v1.0")
    tools = tmp_path / "runner" / release / "bin"
    tools.mkdir(parents=True)
    (tools / "trafficdist").write_text(TRAFFICDIST.format(suite=kept.suite, python=sys.executable))
    (tools / "trafficdist").chmod(0o755)
    fork.commit()
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(tmp_path / "added", target)
    return fork


def submitted(fork: ForkWithReport, **variables: str) -> tuple[int, str]:
    """Commit the changes in the fork, and run the workflow's scripts. Return the exit code and the complete output."""
    base, head = fork.git("rev-parse", "HEAD"), fork.commit()
    workflow = yaml.safe_load((ROOT / ".github/workflows/submission.yml").read_text(encoding="utf-8"))
    scripts = [each["run"] for each in workflow["jobs"]["verify"]["steps"] if "run" in each]
    runner = fork.place.parent / "runner"
    places = {"RUNNER_TEMP": str(runner), "GITHUB_STEP_SUMMARY": str(runner / "summary.md"), "BASE": base, "HEAD": head}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    said = ""
    for script in scripts:
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=fork.place,
            env=os.environ | places | {"PATH": path} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=100,
        )
        said += done.stdout
        if done.returncode:
            return done.returncode, said
    return 0, said


def test_a_good_submission_is_verified_by_the_release_that_made_it(fork: ForkWithReport) -> None:
    code, said = submitted(fork)
    assert (code, "can be published" in said) == (0, True), said
    assert "| feature |" in (fork.place.parent / "runner/summary.md").read_text(encoding="utf-8")


def rewrite_history(fork: ForkWithReport) -> None:
    path = fork.report / "run.jsonl.xz"
    lines = lzma.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(lzma.compress(b"".join(lines[:5] + lines[6:])))


def link(fork: ForkWithReport) -> None:
    (fork.report / "evidence.txt").unlink()
    (fork.report / "evidence.txt").symlink_to("/etc/passwd")


BAD: dict[str, tuple[Callable[[ForkWithReport], object], str]] = {
    "a verdict that is better": (
        lambda f: f.change("report.yaml", "verdict: failed", "verdict: passed"), "verdicts: KEP-2/"),
    "a line of the history that is gone": (rewrite_history, "history: "),
    "no history": (lambda f: (f.report / "run.jsonl.xz").unlink(), "history: "),
    "other evidence": (
        lambda f: (f.report / "evidence.txt").write_text("fine"), "was changed after the run"),
    "too much evidence": (
        lambda f: (f.report / "evidence.txt").write_text("x" * 100_001), "evidence.txt has more than 100,000 bytes"),
    "no report": (lambda f: (f.report / "report.yaml").unlink(), "has no report.yaml"),
    "a report that is none": (
        lambda f: f.change("report.yaml", "kind: ConformanceReport", "kind: Praise"), "schema: "),
    "a key twice": (lambda f: f.change("report.yaml", "\nmode:", "\nmode: x\nmode:"), "schema: "),
    "another folder": (
        lambda f: f.report.rename(f.report.with_name("9.9-nftables")), "place: the folder is 1.37/o-p/9.9-nftables"),
    "another Kubernetes": (
        lambda f: shutil.move(f.report.parent, f.place / "reports/1.38/o-p"), "place: the folder is 1.38/o-p/"),
    "a file that nobody names": (
        lambda f: (f.report / "certificate.pdf").write_text("x"), "certificate.pdf is not part of the report"),
    "a link": (link, "files: evidence.txt is not a regular file"),
    "no page": (lambda f: (f.report / "README.md").unlink(), "files: README.md is missing"),
    "a page that praises": (
        lambda f: f.change("README.md", "## Not met", "The best of all.\n\n## Not met"), "readme: README.md differs"),
    "no release": (
        lambda f: f.change("report.yaml", "  version: '1.0'\n  harness", "  version: '1.1'\n  harness"),
        "trafficdist 1.1 is no release; releases are: v1.0"),
    "a checkout between releases": (
        lambda f: f.change("report.yaml", "  version: '1.0'\n  harness", "  version: 1.1.dev0\n  harness"),
        "trafficdist 1.1.dev0 is no release; releases are: v1.0"),
    "a branch": (
        lambda f: f.change("report.yaml", "  version: '1.0'\n  harness", "  version: main\n  harness"),
        "does not say which version of the suite made it"),
    "a revision of its own": (
        lambda f: f.change("report.yaml", "  catalogueDigest", f"  revision: {'a' * 40}\n  catalogueDigest"),
        f"revision {'a' * 40} made it, and v1.0 is "),
    "other files": (lambda f: (f.place / ".ci/submission.py").write_text("pass\n"), "this one changes '.ci/"),
    "the index": (lambda f: (f.place / "reports/index.json").write_text("{}\n"), "changes 'reports/index.json'"),
    "the report of somebody else, removed": (
        lambda f: shutil.rmtree(f.place / "reports/1.36"), "a published report is not removed"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "why"), BAD.values(), ids=list(BAD))
def test_a_bad_submission_is_refused_for_its_reason(
    fork: ForkWithReport, spoil: Callable[[ForkWithReport], object], why: str
) -> None:
    spoil(fork)
    code, said = submitted(fork, SUMMARY="no")
    assert code in (1, 13), said
    assert why in said


@pytest.mark.parametrize(("days", "why"), [(400, "a report is valid for 365 days"), (-3, "in the future")])
def test_report_is_valid_for_a_year(publishable: ForgedRun, tmp_path: Path, days: int, why: str) -> None:
    target, _ = add(str(publishable.folder), tmp_path, lambda: publishable.requirements)
    assert check(target, publishable.requirements, today=TODAY) == []
    (refused,) = check(target, publishable.requirements, today=TODAY + datetime.timedelta(days=days))
    assert (refused.check, why in refused.text) == ("date", True)


def test_report_can_be_published_on_its_last_valid_day(publishable: ForgedRun, tmp_path: Path) -> None:
    target, _ = add(str(publishable.folder), tmp_path, lambda: publishable.requirements)
    shown = described(publishable.report, target)
    assert check(target, publishable.requirements, today=shown.holds_until) == []
    late = shown.holds_until + datetime.timedelta(days=1)
    assert [each.check for each in check(target, publishable.requirements, today=late)] == ["date"]
    assert not any("expired" in text for text in states([shown], shown.holds_until)[""].texts)
    assert any("expired" in text for text in states([shown], late)[""].texts)


def test_the_workflow_may_only_read() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/submission.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}
    assert {name: job["permissions"] for name, job in workflow["jobs"].items()} == {"verify": {"contents": "read"}}
