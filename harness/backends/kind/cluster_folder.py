"""The files of a kind cluster on this machine: a lock, and a folder that only its owner can enter.

    $XDG_STATE_HOME/trafficdist/kind/CLUSTER/   (else ~/.local/state/…)
        lock  cluster.yaml  kubeconfig  kind.log  kept

The process that created a cluster holds the lock. A cluster is a leftover if its lock is free and it is not kept.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.errors import UnavailableError

PREFIX = "trafficdist-"


def state_home(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_STATE_HOME") or ""
    place = Path(base) if base.startswith("/") else Path(environment.get("HOME") or Path.home()) / ".local" / "state"
    return place / "trafficdist"


def root(environment: Mapping[str, str] = os.environ) -> Path:
    return state_home(environment) / "kind"


class ClusterFolder:
    def __init__(self, cluster: str) -> None:
        self.folder = root() / cluster
        self.manifest = self.folder / "cluster.yaml"
        self.kubeconfig = self.folder / "kubeconfig"
        self.log = self.folder / "kind.log"
        self.kept = self.folder / "kept"
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Create the folder, and lock it. Return False if another process has the lock. Raises `UnavailableError`."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnavailableError(f"cannot store files of a cluster in {self.folder}: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.let_go()


def known() -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(each.name for each in root().iterdir() if each.is_dir())
    return []
