"""What both can run, the embedded cluster and the same cluster by its API alone judge alike: whole profiles.

What could not be told beside other workers is asked again alone, and must be told then, but on a crowded machine: there
it is no verdict, and is not compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from harness.binaries import find
from harness.commands import cluster_state
from harness.errors import UnavailableError
from harness.eventually import crowding
from harness.judging.exit_codes import ExitCode

RUN = [sys.executable, "-c", "from harness.commands.main import main; main()"]
NAME = f"same-verdicts-{os.getpid()}"
UNTOLD = "could not be told beside this load"
JUDGED = {ExitCode.PASSED, ExitCode.FAILED, ExitCode.INCONCLUSIVE, ExitCode.PARTIAL}
PROFILES = ["--profile=service-proxy", "--profile=endpointslice-controller", "--profile=api-server"]

MADE_OF = {
    "reference": [],
    "kube-proxy in nftables": ["--proxy=kube-proxy", "--mode=nftables"],
    "kube-proxy in iptables": ["--proxy=kube-proxy", "--mode=iptables"],
    "a real control plane": ["--control-plane=binaries:1.37", "--proxy=kube-proxy", "--mode=nftables"],
}

COMPONENTS = {
    "--proxy=kube-proxy": ["kube-proxy"],
    "--control-plane=binaries:1.37": ["etcd", "kube-apiserver", "kube-controller-manager"],
}


def trafficdist(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *arguments], capture_output=True, text=True, timeout=1500, check=False)


def verdicts(folder: Path, *options: str) -> dict[str, str]:
    """By requirement, of those that were run."""
    found = run(folder, *options)
    if unclear := [f"--run-test={each}" for each, verdict in found.items() if verdict == "inconclusive"]:
        others = [each for each in options if not each.startswith("--run-test=")]
        found |= run(folder.with_name(f"{folder.name}-alone"), *others, "-n0", *unclear)
    crowded = crowding() > 1
    return {each: UNTOLD if crowded and verdict == "inconclusive" else verdict for each, verdict in found.items()}


def run(folder: Path, *options: str) -> dict[str, str]:
    done = trafficdist("run", *options, f"--output-dir={folder}")
    assert done.returncode in JUDGED, done.stdout + done.stderr
    tests = yaml.safe_load((folder / "report.yaml").read_text())["tests"]
    return {each["id"]: each["verdict"] for each in tests if each["verdict"] != "skipped"}


@pytest.fixture(params=MADE_OF)
def made_of(request: pytest.FixtureRequest) -> Iterator[Sequence[str]]:
    """A cluster, which is up, as options that make it."""
    options = MADE_OF[request.param]
    for component in [each for option in options for each in COMPONENTS.get(option, ())]:
        try:
            find(component)
        except UnavailableError as error:
            pytest.skip(str(error))
    up = trafficdist("cluster", "up", "--name", NAME, *options)
    assert up.returncode == 0, up.stderr
    yield options
    trafficdist("cluster", "down", "--name", NAME)


def unlike(one: dict[str, str], other: dict[str, str]) -> dict[str, set[str | None]]:
    """What is not the same in both, but for what could not be told."""
    both = {each: {one.get(each), other.get(each)} for each in {**one, **other}}
    return {each: said for each, said in both.items() if len(said) > 1 and UNTOLD not in said}


def there() -> list[str]:
    """The options of who comes with a kubeconfig."""
    return ["--backend=kubeconfig", f"--kubeconfig={cluster_state.folder_of(NAME) / 'kubeconfig'}"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_verdicts_are_the_same(made_of: Sequence[str], tmp_path: Path) -> None:
    profiles = PROFILES[:1] if made_of[:1] == ["--proxy=kube-proxy"] else PROFILES
    claims = ["--all-features", f"--follow={'released' if made_of else 'kep'}", *profiles]
    by_api = verdicts(tmp_path / "api", "-n4", *there(), "--allow-disruptive", *claims)
    assert len(by_api) > 50
    here = verdicts(tmp_path / "netns", "-n2", *made_of, *claims, *[f"--run-test={each}" for each in by_api])
    assert unlike(by_api, here) == {}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("made_of", ["reference"], indirect=True)
def test_four_workers_on_one_cluster_judge_as_none_does(made_of: Sequence[str], tmp_path: Path) -> None:
    claims = [*made_of, *there(), "--allow-disruptive", "--all-features", "--follow=kep", PROFILES[0]]
    together, alone = (verdicts(tmp_path / f"n{workers}", f"-n{workers}", *claims) for workers in (4, 0))
    assert len(alone) > 50
    assert unlike(together, alone) == {}
