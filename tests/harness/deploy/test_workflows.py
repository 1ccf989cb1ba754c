"""Checks the workflows and the action with actionlint if it is installed, and runs their scripts with fake programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.deploy.test_manifests import OF_COMMAND, options_of
from tests.harness.deploy.workflow_runner import SUDO, program, workflow

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="unavailable: bash is not installed")


def test_workflows_pass_actionlint() -> None:
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("actionlint is not installed: run go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12")
    run = subprocess.run([actionlint, "-oneline"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stdout) == (0, "")


def used_actions() -> dict[str, str]:
    """Return the value of each `uses:` in the workflows, the action and the docs, by its line."""
    files = [*(ROOT / ".github/workflows").iterdir(), ROOT / "action.yml", ROOT / "README.md", *ROOT.glob("docs/*.md")]
    uses = {
        f"{path.name}:{number}: {line.strip()}": line.partition("uses:")[2].strip()
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.match(r"\s*(- )?uses:", line)
    }
    assert len(uses) > 10
    return uses


BY_COMMIT = re.compile(r"([\w-]+/[\w/-]+)@([0-9a-f]{40}) # v(\d+)\.(\d+)\.\d+")
OWN = re.compile(r"\./|trafficdist/trafficdist@<commit> # ")


def test_actions_of_others_are_named_by_commit() -> None:
    assert [
        each for each, used in used_actions().items() if not OWN.match(used) and not BY_COMMIT.fullmatch(used)
    ] == []


def versions_in_use() -> set[tuple[str, ...]]:
    """Return the name, commit, major and minor version of each action of others."""
    return {found.groups() for used in used_actions().values() if (found := BY_COMMIT.fullmatch(used))}


ON_NODE_24 = {
    "actions/attest-build-provenance": (3, 0),
    "actions/cache": (5, 0),
    "actions/checkout": (5, 0),
    "actions/download-artifact": (7, 0),
    "actions/setup-go": (6, 2),
    "actions/setup-node": (5, 0),
    "actions/setup-python": (6, 0),
    "actions/upload-artifact": (6, 0),
}
"""The first version of each action whose action.yml says `using: node24`. Node 20 is past its end of life."""


def test_actions_of_others_run_on_node_24() -> None:
    assert [each for each in versions_in_use() if (int(each[2]), int(each[3])) < ON_NODE_24[each[0]]] == []


def test_an_action_has_the_same_commit_everywhere() -> None:
    used = versions_in_use()
    assert len(used) == len({name for name, *_ in used}), sorted(used)


ANSWERS = {
    "a vulnerability": ([{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}], 1, "CVE-1"),
    "none": ([{"name": "a", "version": "1", "vulns": []}], 0, "1 of 1 packages audited"),
    "no database": ([{"name": "a", "skip_reason": "not found"}], 0, "the audit is unavailable"),
    "no network": (None, 0, "the audit is unavailable"),
}


@pytest.mark.parametrize(("answer", "code", "said"), ANSWERS.values(), ids=list(ANSWERS))
def test_audit_fails_for_a_vulnerability_and_not_without_a_network(
    answer: list[Any] | None, code: int, said: str, tmp_path: Path
) -> None:
    text = json.dumps({"dependencies": answer}) if answer is not None else ""
    program(tmp_path, "pip-audit", f"#!/bin/sh\necho '{text}'\n")
    command = [sys.executable, ROOT / ".ci/audit.py", tmp_path / "pip-audit"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (ended.returncode, said in ended.stdout) == (code, True), ended.stdout + ended.stderr


MODPROBE = """#!/bin/sh
[ $# = 1 ] || exit 2
[ "$1" != missing ] || { echo "modprobe: FATAL: Module missing not found" >&2; exit 1; }
echo "$1" >> "${0%/*}/loaded"
"""


def loads(tmp_path: Path, command: str, **variables: str) -> tuple[list[str], str]:
    """Run a command that loads kernel modules, one of which may be `missing`. Return the loaded modules, and stdout."""
    program(tmp_path / "bin", "sudo", SUDO)
    program(tmp_path / "bin/root", "sysctl", "#!/bin/sh\n")
    program(tmp_path / "bin/root", "modprobe", MODPROBE)
    environment = os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"} | variables
    ended = subprocess.run(
        ["bash", "-e", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return (tmp_path / "bin/root/loaded").read_text(encoding="utf-8").split(), ended.stdout


@needs_bash
def test_a_missing_kernel_module_neither_fails_nor_hides_others(tmp_path: Path) -> None:
    loaded, said = loads(tmp_path, ".ci/modules veth missing nf_tables")
    assert (loaded, said) == (["veth", "nf_tables"], "::warning::The kernel module missing could not be loaded.\n")


@needs_bash
@pytest.mark.parametrize(("mode", "more"), [("nftables", False), ("iptables", False), ("ipvs", True)])
def test_nightly_runs_load_ipvs_only_for_its_mode(tmp_path: Path, mode: str, *, more: bool) -> None:
    loaded, _ = loads(tmp_path, script("kind", "Raise limits for six nodes"), MODE=mode)
    assert (loaded[0], "ip_vs" in loaded) == ("nf_tables", more)


def test_workflows_load_modules_one_by_one() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / ".github/workflows").iterdir()}
    assert [name for name, text in texts.items() if "modprobe" in text] == []


def test_nightly_runs_name_options_that_exist() -> None:
    _, _, words = script("kind", "Run").partition(" .ci/judge results ")
    options = words.partition("||")[0].split()
    assert options[:2] == ["--backend", "kind"]
    assert options_of(options) <= OF_COMMAND


@pytest.mark.parametrize(
    ("name", "others"), [("nightly-kind.yml", {"kind"}), ("nightly-next.yml", {"versions", "judge"})]
)
def test_only_the_issue_job_of_nightly_runs_has_write_permission(name: str, others: set[str]) -> None:
    nightly = workflow(name, ROOT)
    assert nightly["permissions"] == {}
    granted = {job: text["permissions"] for job, text in nightly["jobs"].items()}
    only_read = {each: {"contents": "read"} for each in others}
    assert granted == {**only_read, "changes": {"contents": "read", "issues": "write"}}


def step(job: str, name: str) -> dict[str, Any]:
    """Return a step of the nightly workflow."""
    steps = workflow("nightly-kind.yml", ROOT)["jobs"][job]["steps"]
    return dict(next(each for each in steps if each.get("name") == name))


def script(job: str, name: str) -> str:
    """Return the script of a step."""
    return str(step(job, name)["run"])


def test_scheduled_run_without_a_branch_opens_issues() -> None:
    assert "(github.event_name == 'schedule' ||" in step("changes", "Open issues")["if"]


def run(text: str, folder: Path, **variables: str) -> int:
    """Run a script in a folder like a GitHub runner, with the programs in the folder's `bin`. Return the exit code."""
    environment = os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": "summary.md"}
    command = ["bash", "-e", "-c", text]
    return subprocess.run(command, cwd=folder, env=environment | variables, check=False, timeout=100).returncode


COMMAND = "from harness.commands.main import main; main()"

TRAFFICDIST = f'#!/bin/sh\nexec {sys.executable} -c "{COMMAND}" "$@"\n'

GH = f"""#!{sys.executable}
import json, sys
text = "" if "--body-file=-" not in sys.argv else sys.stdin.read()
with open("said.jsonl", "a") as file:
    print(json.dumps([*sys.argv[1:], text]), file=file)
if sys.argv[1:3] == ["issue", "list"]:
    print(json.dumps([{{"number": 7, "title": "Verdict changed: K/known"}}]))
"""


def test_known_change_gets_a_comment_and_a_new_one_an_issue(tmp_path: Path) -> None:
    program(tmp_path / "bin", "gh", GH)
    for name in ("known", "new"):
        (tmp_path / f"{name}.md").write_text(f"Verdict changed: K/{name}\n\n| {name} |\n", encoding="utf-8")
    environment = os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "RUN_URL": "https://run"}
    command = [sys.executable, str(ROOT / ".ci/open_issues.py"), str(tmp_path)]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=60)
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text(encoding="utf-8").splitlines()]
    assert said[2] == ["issue", "comment", "7", "--body-file=-", "| known |\n\nhttps://run\n"]
    assert said[3][:3] == ["issue", "create", "--title=Verdict changed: K/new"]


@needs_bash
def test_action_outputs_how_the_run_ended(pytester: pytest.Pytester, sample_suite: Any) -> None:
    (pytester.mkdir("pack") / "test_sample.py").write_text(sample_suite("passes", "fails"))
    [step] = [each for each in action_steps() if each.get("id") == "run"]
    program(Path("tools/trafficdist/bin"), "trafficdist", TRAFFICDIST)
    given = {"BACKEND": "netns", "PROXY": "reference", "WORKERS": "0", "OUTPUT_DIR": "out"}
    given |= dict.fromkeys(("CONTEXT", "MODE", "PROFILE", "SHARD"), "")  # not set
    assert {name for name in step["env"] if name.startswith("TRAFFICDIST_")} == {f"TRAFFICDIST_{n}" for n in given}
    environment = os.environ | {f"TRAFFICDIST_{name}": value for name, value in given.items()}
    files = {"GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary", "RUNNER_TEMP": "tools"}
    environment |= {**files, "OPTIONS": "--suite=pack\n\n--skip-tests=KEP-1/passes\n"}
    run = subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], env=environment, check=False, timeout=100)
    assert run.returncode == 1
    assert Path("output").read_text(encoding="utf-8") == "exit-code=1\nreport=out/report.yaml\n"
    assert "**`KEP-1/fails`** (MUST)" in Path("summary").read_text(encoding="utf-8")


@needs_bash
def test_action_merges_the_parts_of_other_jobs(pytester: pytest.Pytester, sample_suite: Any) -> None:
    """Each part is the output of an action in another job. The merging job has the defaults of the action."""
    (pytester.mkdir("pack") / "test_sample.py").write_text(sample_suite("passes", "fails"))
    [step] = [each for each in action_steps() if each.get("id") == "run"]
    program(Path("tools/trafficdist/bin"), "trafficdist", TRAFFICDIST)
    files = {"GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary", "RUNNER_TEMP": "tools"}
    part = {"BACKEND": "netns", "PROXY": "reference", "WORKERS": "0"}
    codes = []
    for variables, merge, out in (
        ({**part, "SHARD": "1/2"}, "", "parts/part-1"),
        ({**part, "SHARD": "2/2"}, "", "parts/part-2"),
        ({"BACKEND": "kubeconfig", "WORKERS": "auto", "SHARD": ""}, "parts", "whole"),
    ):
        given = {f"TRAFFICDIST_{name}": each for name, each in {**variables, "OUTPUT_DIR": out}.items()}
        environment = {**os.environ, **files, **given, "MERGE": merge, "OPTIONS": "--suite=pack"}
        command = ["bash", "-eo", "pipefail", "-c", step["run"]]
        codes.append(subprocess.run(command, env=environment, check=False, timeout=100).returncode)
    assert sorted(codes[:2]) == [0, 1]
    assert codes[2] == 1
    assert Path("output").read_text(encoding="utf-8").endswith("exit-code=1\nreport=whole/report.yaml\n")


RUN = """#!/bin/sh
[ "$AS_ROOT $TRAFFICDIST_SEED" = "yes 7" ] || exit 99
mkdir results
touch results/report.yaml
exit CODE
"""


def judge(folder: Path, trafficdist: str, **variables: str) -> int:
    """Run the step that judges a kind cluster, with a fake `trafficdist`. Return its exit code."""
    (folder / ".ci").symlink_to(ROOT / ".ci")
    program(folder / "bin", "sudo", SUDO)
    program(folder / "bin", "trafficdist", trafficdist)
    return run(script("kind", "Run"), folder, IMAGE="kindest/node", MODE="ipvs", **variables)


@needs_bash
@pytest.mark.parametrize(("code", "said"), [(0, 0), (1, 0), (10, 0), (11, 0), (4, 4), (12, 12)])
def test_nightly_run_fails_only_when_it_is_unreliable(tmp_path: Path, code: int, said: int) -> None:
    assert judge(tmp_path, RUN.replace("CODE", str(code)), TRAFFICDIST_SEED="7") == said
    report = tmp_path / "results/report.yaml"
    assert report.exists() is (said == 0), "an unreliable report is not compared"


@needs_bash
@pytest.mark.parametrize("folder", [True, False])
def test_nightly_run_as_root_leaves_its_results_to_the_runner(tmp_path: Path, *, folder: bool) -> None:
    program(tmp_path / "bin/root", "chown", '#!/bin/sh\necho "$@" > owned\n')
    trafficdist = "#!/bin/sh\n[ $FOLDER = no ] || mkdir results\n"
    assert judge(tmp_path, trafficdist, FOLDER="yes" if folder else "no") == 0
    owned = tmp_path / "owned"
    said = owned.read_text(encoding="utf-8") if owned.exists() else ""
    assert said == (f"--recursive {os.getuid()} results\n" if folder else "")


def night(folder: Path, report: Path, *, verdict: str) -> str:
    """Compare tonight's report with that of the previous night.

    Tonight KEP-1/passes has this verdict. Return the summary.
    """
    shutil.rmtree(folder / "tonight", ignore_errors=True)
    (folder / "summary.md").unlink(missing_ok=True)
    changed = yaml.safe_load(report.read_text(encoding="utf-8"))
    next(test for test in changed["tests"] if test["id"] == "KEP-1/passes")["verdict"] = verdict
    place = folder / "artifacts/night-1.37-ipvs/results"
    place.mkdir(parents=True, exist_ok=True)
    (place / "report.yaml").write_text(yaml.safe_dump(changed), encoding="utf-8")
    for name in ("Sort the reports by place", "Compare", "Keep the reports for the next night"):
        assert run(script("changes", name), folder, RUNS="success") == 0
    return (folder / "summary.md").read_text(encoding="utf-8")


@needs_bash
def test_nightly_runs_are_compared_per_job(certify: Any, tmp_path: Path) -> None:
    program(tmp_path / "bin", "trafficdist", TRAFFICDIST)
    report = certify("passes").folder / "report.yaml"
    assert "This is the first night." in night(tmp_path, report, verdict="passed")
    assert "No verdict changed." in night(tmp_path, report, verdict="passed")
    assert not (tmp_path / "issues").exists()
    assert "| `KEP-1/passes` | 1.37-ipvs | passed | failed |" in night(tmp_path, report, verdict="failed")
    [issue] = (tmp_path / "issues").iterdir()
    assert issue.read_text(encoding="utf-8").startswith("Verdict changed: KEP-1/passes\n")


def action_steps() -> list[dict[str, Any]]:
    return list(yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"])
