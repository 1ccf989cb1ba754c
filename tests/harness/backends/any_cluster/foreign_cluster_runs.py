"""Runs one scenario on a foreign cluster with the `trafficdist` command, and causes an event while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from emulator.kubelet.images import REGISTRY
from harness.backends.netns import NetnsBackend
from harness.eventually import eventually
from reference.apiserver.server import HttpServer
from tests.harness.guest.snapshot import differences, snapshot

EVERYTHING = ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]})

_SUITE = """
import pathlib, time
from harness.scenario.service import same_zone
from harness.model.requirements import *
from harness.scenario.traffic import expect_traffic

FEATURE = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")
HERE = pathlib.Path(__file__).parent

@requirement("KEP-1/answers", "The near one answers.", level=MUST, features={FEATURE}, source="KEP-1, Design")
def test_near_one_answers(three_zones):
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])
    expect_traffic(three_zones, service, {"a1": {a1}})
    (HERE / "begun").touch()
    while (HERE / "wait").exists():
        time.sleep(0.02)
    three_zones.api.list("nodes")
    expect_traffic(three_zones, service, {"b1": {EXPECTED}})
"""


@dataclass(frozen=True)
class CompletedRun:
    code: int
    text: str
    folder: Path

    @property
    def verdicts(self) -> list[str]:
        """Return the verdict of each requirement."""
        report = yaml.safe_load((self.folder / "report.yaml").read_text(encoding="utf-8"))
        return [test["verdict"] for test in report["tests"]]


class ClusterOwner:
    """The owner of the cluster. `begin` takes a snapshot, and `changed` returns the differences from it."""

    def __init__(self, backend: NetnsBackend, folder: Path) -> None:
        self.backend = backend
        self.server: HttpServer = backend.control_plane._server  # type: ignore[attr-defined]
        self._folder = folder
        self._before: dict[Any, Any] = {}

    def kubeconfig(self, token: str = "") -> Path:
        """Return a kubeconfig file for the administrator or for the user with this token."""
        file = self._folder / "kubeconfig"
        file.write_text(yaml.safe_dump(self.server.kubeconfig(token=token)), encoding="utf-8")
        return file

    def run(
        self,
        *options: str,
        token: str = "",
        expected: str = "b1",
        meanwhile: Callable[[subprocess.Popen[str]], object] | None = None,
    ) -> CompletedRun:
        """Run the scenario. Call `meanwhile` while it runs."""
        suite, out = self._folder / "suite", self._folder / "out"
        suite.mkdir()
        (suite / "test_it.py").write_text(_SUITE.replace("EXPECTED", expected), encoding="utf-8")
        if meanwhile is not None:
            (suite / "wait").touch()
        self._before = self._snapshot()
        begun = _command(
            "run",
            "--backend=kubeconfig",
            f"--suite={suite}",
            f"--output-dir={out}",
            *options,
            file=self.kubeconfig(token),
        )
        if meanwhile is not None:
            eventually((suite / "begun").exists, within=60, every=0.02, describe="the middle of the scenario")
            meanwhile(begun)
            (suite / "wait").unlink()
        text, _ = begun.communicate(timeout=90)
        return CompletedRun(begun.returncode, text, out)

    def clean_up(self) -> str:
        """Return the output of `trafficdist cleanup`."""
        process = _command("cleanup", file=self.kubeconfig())
        text, _ = process.communicate(timeout=90)
        assert process.returncode == 0, text
        return text

    def changed(self) -> list[str]:
        """Return the differences from the state before the run."""
        return list(differences(self._before, self._snapshot()))

    def _snapshot(self) -> dict[Any, Any]:
        """Return all objects except the Leases in which the reference proxies report their progress."""
        return {key: value for key, value in snapshot(self.backend.api).items() if "service-proxy-" not in str(key)}


def _command(*arguments: str, file: Path) -> subprocess.Popen[str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("TRAFFICDIST_", "PYTEST_"))}
    ours["TRAFFICDIST_IMAGE_REGISTRY"] = REGISTRY  # the real image may not be in the cache of components
    command: Sequence[str] = [str(Path(sys.executable).with_name("trafficdist")), *arguments, f"--kubeconfig={file}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ours)
