"""The external client of a cluster whose nodes are containers: a separate container on their network.

The container uses a node's image and runs `cat`, so it ends with this process in any case. The engine gives it an
address, so no link of the machine changes. Like a cloud's network, the container routes each virtual address to the
address's node. A node that forwards a packet to another node on the same network sends an ICMP redirect, which this
client ignores.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.backends.containers.engine import ContainerEngine
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.model.topology import MAX_NODES
from harness.netns import rtnetlink, sysctls
from harness.netns.addresses import Family, NodePlan, family_of
from harness.netns.fabric import Host
from harness.netns.namespace import Namespace

_SECONDS = 60.0  # seconds for the engine to start the container, before the time scale
_LINK = "eth0"


@contextlib.contextmanager
def external_client(
    engine: ContainerEngine,
    name: str,
    *,
    beside: str,
    nodes: Mapping[str, Host],
    cidrs: Mapping[str, Sequence[str]],
    proc: Path,
) -> Iterator[Host]:
    """Run a container on the network of the container `beside`. Yield it with routes to the `cidrs` of nodes.

    Raises `UnavailableError`.
    """
    model = _inspect(engine, beside)
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
        with Namespace.of(proc / str(seen["State"]["Pid"])) as place:
            route(place, nodes, cidrs)
            sysctls.apply(place, sysctls.ignoring_redirects(addresses, _LINK))
            yield Host("external", place, addresses)
    finally:
        _end(engine, name, running)


def _inspect(engine: ContainerEngine, container: str) -> Any:
    return json.loads(engine.ask("inspect", container))[0]


def _runs(engine: ContainerEngine, name: str, running: subprocess.Popen[str]) -> bool:
    if running.poll() is not None:
        assert running.stderr is not None
        text = running.stderr.read().strip()
        raise UnavailableError(f"{engine.name} cannot start a client outside of the cluster: {text}")
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


def plans(nodes: Sequence[str], worker: int) -> dict[str, NodePlan]:
    """Return the virtual addresses of each node. They differ between workers that run at the same time."""
    return {name: NodePlan((worker * len(nodes) + place) % MAX_NODES + 1) for place, name in enumerate(nodes)}


def route(place: Namespace, nodes: Mapping[str, Host], cidrs: Mapping[str, Sequence[str]]) -> None:
    """Route the CIDRs of each node to that node. Raises `NetlinkError`."""
    with place.entered():
        link = socket.if_nametoindex(_LINK)
    requests = []
    for name, node in nodes.items():
        ways = {cidr: node.addresses.get(family_of(cidr)) for cidr in cidrs[name]}
        requests += [rtnetlink.route(cidr, link, via=address) for cidr, address in ways.items() if address]
    rtnetlink.execute(place, requests)
