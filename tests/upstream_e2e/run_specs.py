"""Run Kubernetes' specs on an embedded cluster of `trafficdist cluster up`.

Each spec is a process with its own namespace. Several specs run in parallel, because they mostly wait. A killed run
leaves nothing behind: its specs end with this process, and a watcher stops the cluster.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulator import cluster_control, cluster_state
from harness.binaries import find_entry
from harness.errors import HarnessError
from harness.eventually import NotYetError, eventually
from harness.netns import process
from tests.upstream_e2e.specs import FAILED, SpecResult, chosen, focus, results

TOPOLOGY = "a=2,b=2,c=2"
"""Two nodes in each of three zones. With fewer nodes, three of the six Traffic Distribution specs are skipped."""

SECONDS = 900.0
"""The time limit of a spec."""

_LIST_SECONDS = 60.0
_WATCHER = """
import sys
sys.stdin.read()  # ends when the process that started it ends
from emulator import cluster_control
cluster_control.down(sys.argv[1])
"""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class CompiledSpecs:
    """The compiled specs of a Kubernetes version, and kubectl of that version."""

    version: str
    e2e: Path
    kubectl: Path
    seed: int = 1
    ending: threading.Event = field(default_factory=threading.Event)
    """When this event is set, the running specs are stopped."""

    @classmethod
    def of(cls, version: str, *, seed: int = 1) -> CompiledSpecs:
        """Find the suite in the cache.

        Version "" means the latest one. Raises `UnavailableError` if the suite or agnhost is missing.
        """
        e2e = find_entry("e2e", version)
        find_entry("agnhost")  # the image of the specs' pods
        return cls(str(e2e.version), e2e.path, find_entry("kubectl", str(e2e.version)).path, seed)

    def names(self, groups: Collection[str]) -> list[str]:
        """Return the names of the specs in these groups, from a dry run."""
        with tempfile.TemporaryDirectory() as name:
            report = self._run(Path(name), ["--ginkgo.dry-run", "--ginkgo.focus=sig-network"], within=_LIST_SECONDS)
        return chosen(report, groups)

    def run(self, kubeconfig: Path, spec: str, folder: Path) -> SpecResult:
        """Run one spec. Its log and report are written to `folder`."""
        began = time.monotonic()
        try:
            report = self._run(folder, [f"--kubeconfig={kubeconfig}", focus(spec)], within=SECONDS)
        except HarnessError as error:
            return SpecResult(spec, FAILED, round(time.monotonic() - began, 1), str(error))
        reported = results(report)
        own = [each for each in reported if each.spec == spec]
        why = "; ".join(f"{each.spec}: {each.why}" for each in reported) or "ginkgo has run no spec"
        return own[0] if own else SpecResult(spec, FAILED, round(time.monotonic() - began, 1), why)

    def _run(self, folder: Path, options: Sequence[str], *, within: float) -> list[dict[str, Any]]:
        """Run ginkgo, and return its report. Raises `HarnessError` if there is none."""
        report, log = folder / "report.json", folder / "log"
        command = [
            self.e2e,
            "--provider=skeleton",
            f"--kubectl-path={self.kubectl}",
            "--ginkgo.no-color",
            f"--ginkgo.seed={self.seed}",
            f"--ginkgo.json-report={report}",
            f"--ginkgo.timeout={within:.0f}s",
            *options,
        ]
        running = process.start("e2e", command, log=log, folder=folder)
        try:
            with contextlib.suppress(NotYetError):
                eventually(
                    lambda: not running.alive or self.ending.is_set(), within=within, every=0.1, describe="its end"
                )
        finally:
            running.stop(grace=0)
        try:
            loaded: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise HarnessError(f"e2e left no report; its log ends with:\n{running.said()}") from None
        return loaded


@contextlib.contextmanager
def cluster(**options: Any) -> Iterator[Path]:
    """Boot a cluster with these options of `cluster up`, and stop it afterwards. Yields its kubeconfig."""
    name = f"e2e-{os.getpid()}-{next(_numbers)}"
    watcher = subprocess.Popen(
        [sys.executable, "-c", _WATCHER, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the process that started it
    )
    try:
        cluster_control.up(name, TOPOLOGY, **options)
        yield cluster_state.folder_of(name) / "kubeconfig"
    finally:
        watcher.communicate()


def run(
    suite: CompiledSpecs, kubeconfig: Path, specs: Sequence[str], folder: Path, *, at_once: int
) -> list[SpecResult]:
    """Run specs on a cluster, with `at_once` specs in parallel. Each spec writes to a folder named by its number."""

    def one(number: int, spec: str) -> SpecResult:
        own = folder / str(number)
        own.mkdir(parents=True)
        return suite.run(kubeconfig, spec, own)

    with ThreadPoolExecutor(at_once) as pool:
        try:
            return list(pool.map(one, range(1, len(specs) + 1), specs))
        except BaseException:  # Ctrl-C too
            suite.ending.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
