"""Fixtures for two network namespaces connected by a veth pair, and for a probe loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyroute2 import IPRoute

from harness.errors import InconclusiveError
from harness.eventually import eventually
from harness.model.outcomes import Reached
from harness.netns import sysctls
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe, ProbeLoop, Server, ServerPort

CLIENT, SERVER, SECOND = "10.9.0.1", "10.9.0.2", "10.9.0.3"
SILENT = "10.9.0.99"  # an unused address
CLIENT6, SERVER6, SECOND6 = "fd09::1", "fd09::2", "fd09::3"


@dataclass(frozen=True, slots=True)
class ConnectedPair:
    """A client and a server. The server has two addresses of each family."""

    client: Namespace
    server: Namespace
    loop: ProbeLoop

    def serve(self, identity: str = "a1", port: int = 80, **fields: str) -> Server:
        """Serve TCP and UDP over both families."""
        ports = [
            ServerPort(protocol, family, port, **fields) for protocol in ("TCP", "UDP") for family in ("IPv4", "IPv6")
        ]
        return self.loop.serve(self.server, identity, ports)

    def ask(self, protocol: str = "TCP", address: str = SERVER, port: int = 80, **fields: object) -> Probe:
        """Return a probe from the client to the server."""
        return Probe(self.client, protocol, address, port, **fields)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def pair(netns_allowed: None) -> Iterator[tuple[Namespace, Namespace]]:
    """Return the two namespaces. All tests share them."""
    with Namespace.create() as client, Namespace.create() as server:
        with client.entered(), IPRoute() as ip:
            ip.link("add", ifname="wire", kind="veth", peer={"ifname": "wire", "net_ns_fd": server.fd})
        configure(client, [CLIENT], [CLIENT6])
        configure(server, [SERVER, SECOND], [SERVER6, SECOND6])
        stay_silent(client, SILENT)
        with ProbeLoop() as loop:  # the kernel takes up to a second to bring up both ends of a veth pair
            loop.serve(server, "early", [ServerPort("TCP", "IPv6", 80)])
            early = Probe(client, "TCP", SERVER6, 80, timeout=0.1)
            eventually(
                lambda: loop.probe([early]) == [Reached("early", CLIENT6)],
                within=10,
                describe="the wire to carry packets",
                error=InconclusiveError,
            )
        yield client, server


def configure(namespace: Namespace, addresses: list[str], addresses6: list[str]) -> None:
    """Bring up loopback and the veth with these addresses. IPv6 addresses are usable immediately."""
    sysctls.apply(namespace, sysctls.of_host(("IPv4", "IPv6")))
    with namespace.entered(), IPRoute() as ip:
        (wire,) = ip.link_lookup(ifname="wire")
        for address in addresses:
            ip.addr("add", index=wire, address=address, prefixlen=24)
        for address in addresses6:
            ip.addr("add", index=wire, address=address, prefixlen=64, IFA_FLAGS=0x02)  # IFA_F_NODAD
        ip.link("set", index=wire, state="up")
        ip.link("set", index=1, state="up")


def stay_silent(namespace: Namespace, address: str) -> None:
    """Let packets to an address time out. A permanent neighbour entry prevents the lookup error after three seconds."""
    with namespace.entered(), IPRoute() as ip:
        (wire,) = ip.link_lookup(ifname="wire")
        ip.neigh("add", dst=address, lladdr="02:00:00:00:00:99", ifindex=wire, state=0x80)  # NUD_PERMANENT


@pytest.fixture
def wire(pair: tuple[Namespace, Namespace]) -> Iterator[ConnectedPair]:
    """Return the namespaces with a new loop."""
    with ProbeLoop() as loop:
        yield ConnectedPair(*pair, loop)
