"""Each command in the documentation runs as written. A table lists the exceptions with a reason.

A page is one session. Its commands run in order, in a folder like a checkout, with a kubeconfig for a cluster. A full
run of the suite takes hours, so pytest options limit runs to a few requirements.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.kubelet.images import REGISTRY
from tests.docs.commands_not_run import EXIT_CODES, NOT_RUN, SAYS
from tests.docs.documented_commands import PAGES, ROOT, commands

ABSENT = [program for program in ("bash", "ip", "kubectl") if shutil.which(program) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(ABSENT), reason=f"unavailable: {', '.join(ABSENT)} is not installed"),
]

RUN = {page: [shown for shown in commands(page) if shown.text not in NOT_RUN] for page in PAGES}
SOME = "test_prefer_same_node_falls_back or test_client_uses_endpoints_hinted_for_its_zone"
REQUIREMENTS = {
    "docs/generated-scenarios.md": "generated",
    "docs/feature-grid.md": "test_cluster_ip_hints",
    "docs/node-level-topology.md": "test_clients_use_endpoints_of_their_node",
    "docs/topology-aware-dns.md": "test_headless_service_has_its_ready_endpoints",
    "docs/topology-keys.md": "test_keys_are_stored_in_their_order",
    "docs/version-skew.md": f"{SOME} or test_objects_stay_when_proxies_are_downgraded",
}
NIGHTS = ("monday", "tuesday", "wednesday", "last-night/here", "tonight/here")


class ShellSession:
    """A shell session with its folder and its environment variables."""

    def __init__(self, folder: Path, *, requirements: str) -> None:
        self.folder = folder
        self._exports: list[str] = []
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("TRAFFICDIST_", "PYTEST_"))},
            "HOME": str(folder),
            "KUBECONFIG": str(folder / "runtime/trafficdist/cluster/kubeconfig"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTEST_ADDOPTS": f"-k '{requirements}'",
            "TRAFFICDIST_CACHE": str(folder / "cache"),
            "XDG_RUNTIME_DIR": str(folder / "runtime"),
        }

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command line. Variables that it exports are set for later command lines."""
        text = "\n".join(["set -eu", *self._exports, command])
        on_cluster = "--backend kubeconfig" in command or "--probe" in command
        registry = {"TRAFFICDIST_IMAGE_REGISTRY": REGISTRY} if on_cluster else {}  # the cluster pulls no images
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=self.folder,
            env=self._environment | registry,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        if command.startswith("export "):
            self._exports.append(command)
        return done


@pytest.fixture
def session(tmp_path: Path, page: str) -> Iterator[ShellSession]:
    """A folder like a checkout, with reports of a few nights and a cluster that has Service shop/web."""
    for name in ("deploy", "kind-configs", "reference", "reports"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "runtime").mkdir(mode=0o700)
    report = next((ROOT / "reports/1.37/kubernetes-kube-proxy").rglob("*.yaml"))
    for night in NIGHTS:
        (tmp_path / night).mkdir(parents=True)
        shutil.copy(report, tmp_path / night / "report.yaml")
    session = ShellSession(tmp_path, requirements=REQUIREMENTS.get(page, SOME))
    up = session.run("trafficdist cluster up --name cluster")
    assert up.returncode == 0, up.stdout
    made = session.run("kubectl create namespace shop && kubectl -n shop create service clusterip web --tcp=80")
    assert made.returncode == 0, made.stdout
    yield session
    for name in ("cluster", "default", "faulty"):
        session.run(f"trafficdist cluster down --name {name}")


@pytest.mark.parametrize("page", [page for page in PAGES if RUN[page]])
def test_commands_work_as_they_are_written(page: str, session: ShellSession) -> None:
    for shown in RUN[page]:
        done = session.run(shown.text)
        assert done.returncode == EXIT_CODES.get(shown.text, 0), f"{shown}\n{done.stdout}"
        assert SAYS.get(shown.text, "") in done.stdout, f"{shown}\n{done.stdout}"
