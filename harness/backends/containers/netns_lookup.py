"""Finds the netns of nodes and pods on this machine by their processes. Nothing is installed in nodes or pods.

A node is a container, and its engine reports the container's main process. With any container runtime, the control
groups of a pod's containers have the pod's UID in their names. The process that holds a pod's netns starts when the
pod's network is ready.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from harness.backends.containers.engine import ContainerEngine
from harness.backends.containers.from_host import external_client
from harness.errors import UnavailableError
from harness.netns.fabric import Host
from harness.netns.namespace import PROC, Namespace, processes_by_netns

_UID = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")  # systemd's names have no "-"


class NetnsLookup:
    """The netns of a cluster whose nodes are containers on this machine. The caller closes each returned netns."""

    def __init__(
        self, engine: ContainerEngine, containers: Mapping[str, str], *, who: str = "", proc: Path = PROC
    ) -> None:
        """`containers` maps nodes to containers. `who` is the container name of the external client."""
        self._engine = engine
        self._containers = containers
        self._who = who
        self._proc = proc
        self._nodes: dict[str, int] = {}  # the inodes of the nodes' netns

    def node(self, name: str, addresses: Collection[str]) -> Namespace:
        """Return the netns of a node that has these addresses. Raises `UnavailableError`."""
        container = self._containers[name]
        place = netns_of(self._engine, container, proc=self._proc)
        if not all(holds(place, each) for each in addresses):
            place.close()
            raise UnavailableError(
                f"the process that {self._engine.name} names for {container} is not in a network with the node's "
                f"addresses {', '.join(addresses)}"
            )
        self._nodes[name] = place.inode
        return place

    def pods(self, uids: Collection[str]) -> dict[str, Namespace]:
        """Return the netns of each running pod among `uids`, by UID."""
        found = {}
        for uid, process in processes_of(uids, without=self._nodes.values(), proc=self._proc).items():
            with contextlib.suppress(OSError):  # the process has ended
                found[uid] = Namespace.of(process)
        return found

    def outside(
        self, nodes: Mapping[str, Host], cidrs: Mapping[str, Sequence[str]]
    ) -> contextlib.AbstractContextManager[Host]:
        """Return a client outside the cluster, with routes to the address ranges behind each node."""
        beside = next(iter(self._containers.values()))
        return external_client(self._engine, self._who, beside=beside, nodes=nodes, cidrs=cidrs, proc=self._proc)


def netns_of(engine: ContainerEngine, container: str, *, proc: Path = PROC) -> Namespace:
    """Return the netns of a running container. Raises `UnavailableError` with the reason."""
    pid = engine.ask("inspect", "--format", "{{.State.Pid}}", container).strip()
    if not pid.isdigit() or pid == "0":
        raise UnavailableError(f"container {container} does not run")
    try:
        place = Namespace.of(proc / pid)
    except OSError as error:
        raise UnavailableError(f"process {pid} of container {container} is not seen: {error.strerror}") from None
    try:
        with place.entered():
            return place
    except OSError as error:
        place.close()
        raise UnavailableError(f"the network of container {container} cannot be entered: {error.strerror}") from None


def processes_of(uids: Collection[str], *, without: Collection[int] = (), proc: Path = PROC) -> dict[str, Path]:
    """Return a process of each running pod by UID, as a folder in `proc`, without processes in netns `without`."""
    found: dict[str, Path] = {}
    for inode, processes in processes_by_netns(proc).items():
        for process in processes if inode not in without else ():
            with contextlib.suppress(OSError):
                uid = pod_of((process / "cgroup").read_text("ascii", errors="replace"))
                if uid in uids:
                    found[uid] = process
                    break
    return found


def pod_of(control_groups: str) -> str:
    """Return the UID of the pod with these control groups, or "" if there is none."""
    found = _UID.search(control_groups)
    return found[1].replace("_", "-") if found else ""


def holds(place: Namespace, address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with place.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((address, 0))
    except OSError:
        return False
    return True
