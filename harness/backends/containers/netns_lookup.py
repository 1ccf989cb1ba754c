"""Finds the netns of nodes and pods on this machine from their processes. Nothing is installed in nodes or pods.

With any container runtime, the control groups of a pod's containers have the pod's UID in their names. The first
process in a pod's netns starts when the pod's network is ready. The external client is a container on the network of
the nodes. It runs `cat`, which ends with this process. Like a cloud's network, the client routes each virtual address
to the address's node. A node that forwards a packet to another node on the same network sends an ICMP redirect, which
the client ignores.
"""

import contextlib
import json
import re
import socket
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.backends.containers.engine import ContainerEngine
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.model.topology import MAX_NODES
from harness.netns import rtnetlink, sysctls
from harness.netns.addresses import Family, NodeAddresses, family_of
from harness.netns.fabric import NetworkPeer
from harness.netns.namespace import PROC, Namespace, processes_by_netns

_UID = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")  # systemd's names have no "-"

_SECONDS = 60.0  # seconds for the engine to start the container, before `time_scale` is applied
_LINK = "eth0"


class NetnsLookup:
    """Finds the netns of nodes that are containers on this machine, and of their pods. The caller closes each netns."""

    def __init__(self, engine: ContainerEngine, containers: Mapping[str, str], *, who: str = "") -> None:
        """`containers` maps nodes to containers. `who` is the container name of the external client."""
        self._engine = engine
        self._containers = containers
        self._who = who
        self._nodes: dict[str, int] = {}  # the inodes of the nodes' netns

    def node(self, name: str, addresses: Collection[str]) -> Namespace:
        """Return the netns of a node. Raises `UnavailableError` if the netns lacks one of these addresses."""
        container = self._containers[name]
        place = netns_of(self._engine, container)
        if not all(holds(place, each) for each in addresses):
            place.close()
            raise UnavailableError(
                f"the main process of {container}, as {self._engine.name} reports it, is in a netns that lacks some of "
                f"the node's addresses {', '.join(addresses)}"
            )
        self._nodes[name] = place.inode
        return place

    def pods(self, uids: Collection[str]) -> dict[str, Namespace]:
        found = {}
        for uid, process in processes_of(uids, without=self._nodes.values()).items():
            with contextlib.suppress(OSError):  # the process has ended
                found[uid] = Namespace.of(process)
        return found

    @contextlib.contextmanager
    def outside(self, nodes: Mapping[str, NetworkPeer], cidrs: Mapping[str, Sequence[str]]) -> Iterator[NetworkPeer]:
        """Run the external client on the nodes' network, with routes to the `cidrs`. Raises `UnavailableError`."""
        engine, name = self._engine, self._who
        model = _inspect(engine, next(iter(self._containers.values())))
        network, image = next(iter(model["NetworkSettings"]["Networks"])), str(model["Image"])
        command = ("run", "--rm", "-i", "--name", name, "--network", network, "--entrypoint", "cat", image)
        running = subprocess.Popen(  # noqa: S603  the engine that the person installed
            [engine.path, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # only the harness handles Ctrl-C
        )
        try:
            eventually(
                lambda: _runs(engine, name, running),
                within=_SECONDS,
                every=0.05,
                describe="the client outside of the cluster to start",
                error=UnavailableError,
            )
            seen = _inspect(engine, name)
            (network_of_it,) = seen["NetworkSettings"]["Networks"].values()
            given = filter(None, (network_of_it["IPAddress"], network_of_it["GlobalIPv6Address"]))
            addresses: dict[Family, str] = {family_of(each): each for each in given}
            with Namespace.of(PROC / str(seen["State"]["Pid"])) as place:
                route(place, nodes, cidrs)
                sysctls.apply(place, sysctls.ignoring_redirects(addresses, _LINK))
                yield NetworkPeer("external", place, addresses)
        finally:
            _end(engine, name, running)


def netns_of(engine: ContainerEngine, container: str) -> Namespace:
    pid = engine.ask("inspect", "--format", "{{.State.Pid}}", container).strip()
    if not pid.isdigit() or pid == "0":
        raise UnavailableError(f"container {container} is not running")
    try:
        place = Namespace.of(PROC / pid)
    except OSError as error:
        raise UnavailableError(f"process {pid} of container {container} is not visible: {error.strerror}") from None
    try:
        with place.entered():
            return place
    except OSError as error:
        place.close()
        raise UnavailableError(f"the netns of container {container} cannot be entered: {error.strerror}") from None


def processes_of(uids: Collection[str], *, without: Collection[int] = (), proc: Path = PROC) -> dict[str, Path]:
    """Return a folder of `proc` for each running pod, keyed by pod UID. Skip processes in the netns `without`."""
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


def _inspect(engine: ContainerEngine, container: str) -> Any:
    return json.loads(engine.ask("inspect", container))[0]


def _runs(engine: ContainerEngine, name: str, running: subprocess.Popen[str]) -> bool:
    if running.poll() is not None:
        assert running.stderr is not None
        text = running.stderr.read().strip()
        raise UnavailableError(f"{engine.name} cannot start a client outside the cluster: {text}")
    with contextlib.suppress(UnavailableError):  # the engine does not know the container yet
        return _inspect(engine, name)["State"]["Running"] is True
    return False


def _end(engine: ContainerEngine, name: str, running: subprocess.Popen[str]) -> None:
    assert running.stdin is not None
    assert running.stderr is not None
    running.stdin.close()
    try:
        running.wait(10)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(UnavailableError):
            engine.ask("rm", "--force", name)
        running.kill()
        running.wait()
    running.stderr.close()


def plans(nodes: Sequence[str], worker: int) -> dict[str, NodeAddresses]:
    """Return the address plan of each node. The virtual addresses differ between concurrent workers."""
    return {name: NodeAddresses((worker * len(nodes) + place) % MAX_NODES + 1) for place, name in enumerate(nodes)}


def route(place: Namespace, nodes: Mapping[str, NetworkPeer], cidrs: Mapping[str, Sequence[str]]) -> None:
    """Route the CIDRs of each node to that node. Raises `NetlinkError`."""
    with place.entered():
        link = socket.if_nametoindex(_LINK)
    requests = []
    for name, node in nodes.items():
        ways = {cidr: node.addresses.get(family_of(cidr)) for cidr in cidrs[name]}
        requests += [rtnetlink.route(cidr, link, via=address) for cidr, address in ways.items() if address]
    rtnetlink.execute(place, requests)
