"""Tests the Job and the Sonobuoy plugin of deploy/ on a kind cluster, with the commands of the documentation page.

Nodes pull no images from a registry. The engine has or builds the node image and the image of deploy/Containerfile.
Only a few requirements run. The options of docs/in-cluster.md select these requirements.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.backends.containers.engine import ContainerEngine
from harness.backends.kind.checks import find_kind
from harness.backends.kind.cluster import KindCluster
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.model.topology import parse_topology
from tests.docs.documented_commands import ROOT, commands

PAGE = "docs/in-cluster.md"
FEW = (
    "KEP-4444/each-port-is-judged-on-its-own",
    "KEP-4444/partial-hints-over-several-slices-are-set-aside",
    "SERVICE/namespaces-are-apart",
)
ABSENT = [program for program in ("bash", "kubectl") if shutil.which(program) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(ABSENT), reason=f"unavailable: {', '.join(ABSENT)} is not installed"),
]


def documented(beginning: str) -> str:
    """Return the only command on the page that starts with this text."""
    [found] = [shown.text for shown in commands(PAGE) if shown.text.startswith(beginning)]
    return found


def volume(node: str) -> str:
    """Return the page's PersistentVolume, on this node."""
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    [text] = [each for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "kind: PersistentVolume\n" in each]
    return text.replace("NODE", node)


@dataclass(frozen=True)
class UserShell:
    """The shell of a user with access to a cluster, in a folder like a checkout."""

    folder: Path
    cluster: KindCluster

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"KUBECONFIG": str(self.cluster.kubeconfig)}

    def run(self, text: str, *, given: str = "") -> str:
        """Run a command line, and return its output."""
        done = subprocess.run(
            ["bash", "-c", text], cwd=self.folder, env=self.environment, input=given, capture_output=True, text=True,
            check=False, timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def load(self, engine: ContainerEngine, image: str) -> None:
        """Load an image onto the nodes."""
        environment = os.environ | engine.environment()
        load = [find_kind()[0], "load", "docker-image", image, "--name", self.cluster.name]
        done = subprocess.run(load, env=environment, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def ours(engine: ContainerEngine) -> str:
    """Build our image under the name in the manifests.

    Use the base image of the page if it is present, or the default one.
    """
    build = documented("docker build --file deploy/Containerfile --build-arg")
    [base], [name] = re.findall(r"BASE=(\S+)", build), re.findall(r"--tag (\S+)", build)
    if not engine.ask("image", "ls", "--quiet", base).strip():
        [base] = re.findall(r"^ARG BASE=(\S+)", (ROOT / "deploy/Containerfile").read_text("utf-8"), re.MULTILINE)
        try:
            engine.ask("pull", base, seconds=300)
        except UnavailableError as error:
            pytest.skip(f"unavailable: no base image for our image, see {PAGE}: {error}")
    file = ("--file", str(ROOT / "deploy/Containerfile"))
    engine.ask("build", *file, "--build-arg", f"BASE={base}", "--tag", name, str(ROOT), seconds=900)
    return str(name)


@pytest.fixture(scope="module")
def shell(engine: ContainerEngine, node_image: str, ours: str, tmp_path_factory: Any) -> Iterator[UserShell]:
    """Create a cluster with two zones, and load our image onto its nodes."""
    folder = tmp_path_factory.mktemp("deployed")
    (folder / "deploy").symlink_to(ROOT / "deploy")
    with KindCluster(parse_topology("a=1,b=1"), image=node_image, mode="nftables") as cluster:
        shell = UserShell(folder, cluster)
        shell.load(engine, ours)
        yield shell


def verdicts(report: str) -> dict[str, str]:
    """Return the verdict of each requirement that was not skipped."""
    return {each["id"]: each["verdict"] for each in yaml.safe_load(report)["tests"] if each["verdict"] != "skipped"}


def test_job_leaves_its_reports_on_the_volume(shell: UserShell, engine: ContainerEngine) -> None:
    node = shell.cluster.node_names["b1"]
    engine.execute(node, "mkdir", "/var/trafficdist-results")
    shell.run("kubectl apply -f -", given=volume(node))
    shell.run(documented("kubectl create namespace"))
    shell.run(documented("kubectl --namespace trafficdist-job create configmap").replace("KEP-4444/*", ",".join(FEW)))
    shell.run(documented("kubectl apply -f deploy/rbac.yaml -f deploy/job.yaml"))
    shell.run(documented("kubectl --namespace trafficdist-job wait --for=jsonpath"))
    log = shell.run(documented("kubectl --namespace trafficdist-job logs"))
    asked = documented("kubectl --namespace trafficdist-job get pods")
    assert eventually(lambda: shell.run(asked), within=60, every=1, describe="the exit code of the Job") == "0", log[
        -3000:
    ]
    shell.run(documented("kubectl apply -f deploy/results.yaml"))
    shell.run(documented("kubectl --namespace trafficdist-job wait --for=condition=Ready"))
    shell.run(documented("kubectl --namespace trafficdist-job cp"))
    report = (shell.folder / "results/report.yaml").read_text(encoding="utf-8")
    assert verdicts(report) == dict.fromkeys(FEW, "passed")
    shell.run(documented("kubectl delete -f deploy/job.yaml"))
    assert "trafficdist" not in shell.run("kubectl get namespaces --output name")


def sonobuoy_image(shell: UserShell, engine: ContainerEngine) -> str:
    """Build the image that `sonobuoy gen` names.

    The image contains the `sonobuoy` command from PATH, which is a static binary.
    """
    [name] = set(re.findall(r"image: (sonobuoy/\S+)", shell.run("sonobuoy gen --plugin deploy/sonobuoy-plugin.yaml")))
    program = Path(str(shutil.which("sonobuoy")))
    context = shell.folder / "sonobuoy-image"
    context.mkdir()
    shutil.copy(program, context / "sonobuoy")
    (context / "Dockerfile").write_text("FROM scratch\nCOPY sonobuoy /sonobuoy\nWORKDIR /\n", encoding="utf-8")
    engine.ask("build", "--tag", name, str(context))
    return str(name)


@pytest.mark.skipif(shutil.which("sonobuoy") is None, reason="unavailable: sonobuoy is not on PATH")
def test_sonobuoy_hands_results_over(shell: UserShell, engine: ContainerEngine) -> None:
    shell.load(engine, sonobuoy_image(shell, engine))
    chosen = f"--plugin-env trafficdist.TRAFFICDIST_RUN_TEST={','.join(FEW)}"
    start = f"{documented('sonobuoy run')} {chosen}"
    subprocess.run(["bash", "-c", start], cwd=shell.folder, env=shell.environment, check=True, timeout=600)
    said = shell.run(documented("sonobuoy results"))
    assert re.search(r"^Plugin: trafficdist\nStatus: passed\n", said)
    assert f"\nPassed: {len(FEW)}\n" in said
    [tarball] = shell.folder.glob("*_sonobuoy_*.tar.gz")
    with tarfile.open(tarball) as archive:
        [report] = [each for each in archive if each.name.endswith("/report.yaml")]
        file = archive.extractfile(report)
        assert file is not None
        assert verdicts(file.read().decode()) == dict.fromkeys(FEW, "passed")
    shell.run("sonobuoy delete --wait")
