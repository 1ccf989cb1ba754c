"""The state of clusters that run in the background. Each cluster has a folder that only its owner can read.

    $XDG_RUNTIME_DIR/trafficdist/NAME/   (without XDG_RUNTIME_DIR: ~/.local/state/trafficdist/clusters/NAME/)
        state.json  kubeconfig  log

Process ids are reused, so a state also contains the start time of its process. The temporary folder is not used,
because another user could create a folder with the same name there.
"""

import contextlib
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

READY = "ready"  # a cluster's process writes this word to its pipe when the cluster is up

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A running cluster. `places` maps the names of nodes, pods and the external client to their netns paths."""

    name: str
    pid: int
    start_time: int  # start time of the process in clock ticks since boot
    topology: str
    zones: dict[str, str]
    places: dict[str, str]
    user_namespace: str  # the path, if the cluster has a separate user namespace
    service: dict[str, Any]
    groups: dict[str, str]  # by place: the file through which a process joins the node's control group

    @property
    def kubeconfig(self) -> Path:
        return folder_of(self.name) / "kubeconfig"

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.start_time


def root() -> Path:
    """Return the folder for this user's cluster states. Raises `UnavailableError` if other users can access it."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nowhere")
    path = runtime / "trafficdist" if runtime.is_dir() else state_home() / "clusters"
    try:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700, parents=True)
        found = path.lstat()
    except OSError as error:
        raise UnavailableError(f"cannot use {path} for the state of clusters: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise UnavailableError(
            f"{path} must be a folder that belongs to you and is accessible only to you (mode 0700). "
            "Remove it, or set XDG_RUNTIME_DIR to a folder of your own."
        )
    return path


def folder_of(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise UsageError(f"cluster name {name!r}: use a-z, 0-9 and -, at most 40 characters")
    return root() / name


def save(folder: Path, state: ClusterState) -> None:
    write_whole(folder / "state.json", json.dumps(asdict(state), indent=2))


def load(name: str) -> ClusterState | None:
    """Return the running cluster with this name, or None. Remove the files of a killed cluster."""
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
    names = sorted(path.name for path in root().iterdir() if path.is_dir())
    return [state for name in names if (state := load(name)) is not None]
