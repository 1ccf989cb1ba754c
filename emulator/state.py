"""The state of clusters that run in the background: a folder a cluster, readable by its owner only.

    $XDG_RUNTIME_DIR/trafficdist/NAME/   (where there is none: ~/.local/state/trafficdist/clusters/NAME/)
        state.json  kubeconfig  log

A process id alone says nothing, since ids are used again: a state counts only while the process that wrote it lives,
recognised by its start time. What a killed process left is removed by whoever comes next. None of it is in the temp
folder, where another user could be first to take a name.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.backends.kind.cluster_folder import state_home
from harness.errors import UnavailableError, UsageError
from harness.netns.process import start_time
from harness.run.folder import write_whole

READY = "ready"  # what the process of a cluster says once it is up

_OTHERS = 100  # commands that may remove the folder while one makes it
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A running cluster. `places` are its nodes, pods and external client by name, each with the path of its netns."""

    name: str
    pid: int
    start_time: int  # clock ticks after the machine's boot
    topology: str
    zones: dict[str, str]
    places: dict[str, str]
    user_namespace: str  # path, where the cluster is in a user namespace of its own
    service: dict[str, Any]

    @property
    def kubeconfig(self) -> Path:
        """The file with which clients reach it."""
        return folder_of(self.name) / "kubeconfig"

    @property
    def alive(self) -> bool:
        """True if the process that wrote this state still runs."""
        return start_time(self.pid) == self.start_time


def root() -> Path:
    """The folder of all states of this user, made if need be. Raises `UnavailableError` if it is not ours alone."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nowhere")
    path = runtime / "trafficdist" if runtime.is_dir() else state_home() / "clusters"
    try:
        found = _made(path)
    except OSError as error:
        raise UnavailableError(f"cannot use {path} for the state of clusters: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise UnavailableError(
            f"{path} must be a folder that belongs to you and that nobody else can enter (mode 0700). "
            "Remove it, or set XDG_RUNTIME_DIR to a folder of your own."
        )
    return path


def _made(path: Path) -> os.stat_result:
    """Make a folder unless it is there, and say what it is. A command that ends removes it, now and then in between."""
    for _ in range(_OTHERS):
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            return path.lstat()
    raise FileNotFoundError(errno.ENOENT, "other commands remove it all the time")


def folder_of(name: str) -> Path:
    """The folder of a cluster. Raises `UsageError` for a name that cannot be one."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"cluster name {name!r}: want a-z, 0-9 and -, at most 40 characters")
    return root() / name


def save(folder: Path, state: ClusterState) -> None:
    """Write a state, whole or not at all."""
    write_whole(folder / "state.json", json.dumps(asdict(state), indent=2))


def load(name: str) -> ClusterState | None:
    """The running cluster of that name, or None; remains of a killed one are removed."""
    folder = folder_of(name)
    try:
        state = ClusterState(**json.loads((folder / "state.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        state = None
    if state is None or not state.alive:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return state


def running() -> list[ClusterState]:
    """All running clusters of this user, by name."""
    names = sorted(path.name for path in root().iterdir() if path.is_dir())
    return [state for name in names if (state := load(name)) is not None]
