"""Unmodified DNS clients run in pods: dig, the C library's resolver, and Python's resolver.

Each pod has its own netns, and packets are routed between pods. The controller writes the PodLocators.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator

import dns.resolver
import pytest

from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.model.topology import THREE_ZONES
from harness.netns import sandbox
from harness.netns.fabric import Network, NetworkPeer
from harness.netns.process import run
from reference.apiserver import ApiServer
from reference.client import Object
from reference.dns import DnsServer
from reference.pod_locator import PodLocatorController
from tests.reference.api_server_calls import listed, patched
from tests.reference.dns.dns_cluster import WITH_KEYS, ZONE, at

NSSWITCH = "hosts: dns\n"


class PodsWithDnsServer:
    """Pods in three zones and their API server. One pod runs the DNS server."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.api = ApiServer(WITH_KEYS)
        self.controller = PodLocatorController(self.api)
        self.server = DnsServer(self.api, features=WITH_KEYS)
        self.dns = network.add_pod("a1")
        for node in THREE_ZONES.nodes:
            self.api.create("nodes", "", {"metadata": {"name": node.name, "labels": {ZONE: node.zone}}})
        self.servers: dict[str, list[str]] = {}  # addresses of the endpoints of `web`, by family
        self.clients = {node: self.run_pod(f"client-{node}", node) for node in ("a1", "a2", "b1", "c1")}
        for family, kind in ((family, kind) for family in (4, 6) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)):
            self.server.listen(self._bound(f"IPv{family}", kind))

    def _bound(self, family: str, kind: socket.SocketKind) -> socket.socket:
        sock = self.dns.namespace.socket(socket.AF_INET6 if family == "IPv6" else socket.AF_INET, kind)
        sock.bind((self.dns.addresses[family], 53))
        if kind == socket.SOCK_STREAM:
            sock.listen(10)
        return sock

    def run_pod(self, name: str, node: str) -> NetworkPeer:
        host = self.network.add_pod(node)
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        self.api.create("pods", "default", {"metadata": {"name": name}, "spec": spec})
        status = {"phase": "Running", "podIPs": [{"ip": each} for each in host.addresses.values()]}
        patched(self.api, "pods", "default", name, {"status": status}, subresource="status")
        return host

    def publish(self, service: str, keys: list[str], *endpoints: Object, family: str = "IPv4") -> None:
        spec = {"clusterIP": "None", "ports": [{"name": "http", "port": 80}], "topologyKeys": keys}
        if not any(each["metadata"]["name"] == service for each in listed(self.api, "services")):
            self.api.create("services", "default", {"metadata": {"name": service}, "spec": spec})
        meta = {"name": f"{service}-{family.lower()}", "labels": {"kubernetes.io/service-name": service}}
        ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
        obj = {"metadata": meta, "addressType": family, "endpoints": list(endpoints), "ports": ports}
        self.api.create("endpointslices", "default", obj)

    def settle(self) -> None:
        for each in (self.controller, self.server):
            eventually(each.synced, describe=f"{each} to be synced", every=0.001)

    def resolv_conf(self, family: str = "IPv4") -> str:
        """Return the resolv.conf that kubelets write for pods with dnsPolicy ClusterFirst."""
        search = "default.svc.cluster.local svc.cluster.local cluster.local"
        return f"nameserver {self.dns.addresses[family]}\nsearch {search}\noptions ndots:5 timeout:2 attempts:2\n"

    def run(self, node: str, *command: str, resolv_conf: str = "") -> str:
        """Return the output of a program in the client pod of a node. `resolv_conf` replaces the pod's file."""
        files = {"/etc/resolv.conf": resolv_conf, "/etc/nsswitch.conf": NSSWITCH} if resolv_conf else None
        try:
            ended = run(self.clients[node].namespace, command, files=files)
        except UnavailableError as error:
            pytest.skip(f"unavailable: {error}")
        assert ended.returncode == 0, ended
        return ended.stdout

    def dig(self, node: str, *arguments: str, family: str = "IPv4") -> list[str]:
        return sorted(self.run(node, "dig", f"@{self.dns.addresses[family]}", "+short", *arguments).splitlines())


@pytest.fixture(scope="module")
def pods() -> Iterator[PodsWithDnsServer]:
    """Headless Services: `web` has one endpoint in zone a and two in zone b, and `large` has 300 endpoints."""
    sandbox.enter()
    with Network(THREE_ZONES) as network:
        pods = PodsWithDnsServer(network)
        servers = [pods.run_pod(name, node) for name, node in (("one", "a2"), ("two", "b1"), ("three", "b2"))]
        for family in ("IPv4", "IPv6"):
            endpoints = [at(each.addresses[family]) for each in servers]
            pods.publish("web", [ZONE, "*"], *endpoints, family=family)
        pods.publish("large", ["*"], *(at(f"10.1.{number // 250}.{number % 250}") for number in range(300)))
        pods.controller.start()
        pods.server.start()
        pods.settle()
        pods.servers = {family: [each.addresses[family] for each in servers] for family in ("IPv4", "IPv6")}
        yield pods
        pods.server.stop()
        pods.controller.stop()


WEB = "web.default.svc.cluster.local"
SEEN = {"a1": [0], "a2": [0], "b1": [1, 2], "c1": [0, 1, 2]}
"""Return the endpoints (of three) in the answer to a client on each node."""


def expected(pods: PodsWithDnsServer, node: str, family: str = "IPv4") -> list[str]:
    return sorted(pods.servers[family][number] for number in SEEN[node])


@pytest.mark.parametrize("node", SEEN)
def test_dig_gets_the_addresses_of_its_zone(pods: PodsWithDnsServer, node: str) -> None:
    assert pods.dig(node, WEB) == expected(pods, node)
    assert pods.dig(node, WEB, "AAAA", family="IPv6") == expected(pods, node, "IPv6")
    assert len(pods.dig(node, f"_http._tcp.{WEB}", "SRV")) == 2 * len(SEEN[node])  # addresses of both families


@pytest.mark.parametrize("options", [(), ("+noedns",), ("+tcp",), ("+bufsize=512",), ("+nocookie", "+bufsize=1232")])
def test_dig_gets_complete_large_answers(pods: PodsWithDnsServer, options: tuple[str, ...]) -> None:
    assert len(pods.dig("b1", "large.default.svc.cluster.local", *options)) == 300


def test_dig_gets_nxdomain_for_unknown_names(pods: PodsWithDnsServer) -> None:
    answer = pods.run("a1", "dig", f"@{pods.dns.addresses['IPv4']}", f"none.{WEB}")
    assert "status: NXDOMAIN" in answer
    assert "ns.dns.cluster.local." in answer
    assert not re.search("malformed|bad packet|extra bytes|mismatch", answer, re.IGNORECASE)


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
@pytest.mark.parametrize("node", SEEN)
def test_c_library_resolves_a_short_name(pods: PodsWithDnsServer, node: str, family: str) -> None:
    said = pods.run(node, "getent", f"ahostsv{family[-1]}", "web", resolv_conf=pods.resolv_conf(family))
    assert sorted({line.split()[0] for line in said.splitlines()}) == expected(pods, node, family)


def test_c_library_gets_a_large_answer_over_tcp(pods: PodsWithDnsServer) -> None:
    said = pods.run("a1", "getent", "ahostsv4", "large", resolv_conf=pods.resolv_conf())
    assert len({line.split()[0] for line in said.splitlines()}) == 300


@pytest.mark.parametrize("node", SEEN)
def test_python_resolves_a_short_name(pods: PodsWithDnsServer, node: str) -> None:
    program = "import socket; print(*sorted({each[4][0] for each in socket.getaddrinfo('web.default', 80)}))"
    said = pods.run(node, sys.executable, "-S", "-c", program, resolv_conf=pods.resolv_conf()).split()
    assert said == sorted(expected(pods, node) + expected(pods, node, "IPv6"))


def test_resolver_of_a_library_finds_short_names(pods: PodsWithDnsServer) -> None:
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = [pods.dns.addresses["IPv4"]]
    resolver.search = [dns.name.from_text("default.svc.cluster.local")]
    with pods.clients["b1"].namespace.entered():
        answer = resolver.resolve("web", search=True)
    assert sorted(each.to_text() for each in answer) == expected(pods, "b1")


def test_files_of_the_machine_are_unchanged(pods: PodsWithDnsServer) -> None:
    said = pods.run("a1", "cat", "/etc/resolv.conf", resolv_conf=pods.resolv_conf())
    assert said == pods.resolv_conf()
    assert pods.run("a1", "cat", "/etc/resolv.conf") != said
