"""The external client of a cluster whose nodes are containers: a separate container on their network.

It uses a node's image and runs `cat`. The engine gives it an address, and it ends with this process in any case. So no
link of the machine changes. Like a cloud's network, it has routes for each virtual address to its node. When a node
forwards a packet to another on the same network, it sends an ICMP redirect, which this client ignores.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.backends.containers.engine import ContainerEngine
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.model.topology import MAX_NODES
from harness.netns import rtnetlink, sysctls
from harness.netns.addresses import Family, NodePlan, by_family, family_of
from harness.netns.fabric import Host
from harness.netns.namespace import Namespace

_SECONDS = 60.0  # for the engine to start it, before the time scale
_LINK = "eth0"


class ExternalClient:
    """The container and its netns."""

    def __init__(self, engine: ContainerEngine, name: str, *, proc: Path) -> None:
        self._engine = engine
        self._name = name
        self._proc = proc
        self._begun = contextlib.ExitStack()

    def start(self, *, beside: str, nodes: Mapping[str, Host], cidrs: Mapping[str, Sequence[str]]) -> Host:
        """Start the client on the network of the container `beside`, and return it with routes to the `cidrs` of nodes.

        Raises `UnavailableError`.
        """
        network, image = self._of(beside)
        command = ("run", "--rm", "-i", "--name", self._name, "--network", network, "--entrypoint", "cat", image)
        running = subprocess.Popen(  # noqa: S603  the engine that the person installed
            [self._engine.path, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the harness
        )
        self._begun.callback(self._end, running)
        eventually(
            lambda: self._runs(running),
            within=_SECONDS,
            every=0.05,
            describe="the client outside of the cluster to start",
            error=UnavailableError,
        )
        seen = self._inspect(self._name)
        place = self._begun.enter_context(Namespace.of(self._proc / str(seen["State"]["Pid"])))
        (network_of_it,) = seen["NetworkSettings"]["Networks"].values()
        given = by_family(filter(None, (network_of_it["IPAddress"], network_of_it["GlobalIPv6Address"])))
        addresses: dict[Family, str] = {"IPv6" if ":" in each else "IPv4": each for each in given.values()}
        route(place, nodes, cidrs)
        sysctls.apply(place, sysctls.of_one_that_keeps_its_routes(addresses, _LINK))
        return Host("external", place, addresses)

    def close(self) -> None:
        self._begun.close()

    def _of(self, container: str) -> tuple[str, str]:
        """Return the network and the image of a container."""
        seen = self._inspect(container)
        return next(iter(seen["NetworkSettings"]["Networks"])), str(seen["Image"])

    def _inspect(self, container: str) -> Any:
        return json.loads(self._engine.ask("inspect", container))[0]

    def _runs(self, running: subprocess.Popen[str]) -> bool:
        if running.poll() is not None:
            assert running.stderr is not None
            text = running.stderr.read().strip()
            raise UnavailableError(f"{self._engine.name} cannot start a client outside of the cluster: {text}")
        with contextlib.suppress(UnavailableError):  # the engine does not know the container yet
            return self._inspect(self._name)["State"]["Running"] is True
        return False

    def _end(self, running: subprocess.Popen[str]) -> None:
        assert running.stdin is not None
        assert running.stderr is not None
        running.stdin.close()
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(UnavailableError):
                self._engine.ask("rm", "--force", self._name)
            running.kill()
            running.wait()
        running.stderr.close()


def plans(nodes: Sequence[str], worker: int) -> dict[str, NodePlan]:
    """Return the virtual addresses of each node, which differ between workers that run at the same time."""
    return {name: NodePlan((worker * len(nodes) + place) % MAX_NODES + 1) for place, name in enumerate(nodes)}


def route(place: Namespace, nodes: Mapping[str, Host], cidrs: Mapping[str, Sequence[str]]) -> None:
    """Route the CIDRs of each node to it. Raises `NetlinkError`."""
    with place.entered():
        link = socket.if_nametoindex(_LINK)
    requests = []
    for name, node in nodes.items():
        ways = {cidr: node.addresses.get(family_of(cidr)) for cidr in cidrs[name]}
        requests += [rtnetlink.route(cidr, link, via=address) for cidr, address in ways.items() if address]
    rtnetlink.execute(place, requests)
