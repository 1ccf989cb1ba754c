"""A cluster with real network namespaces, our API server and proxies; and a netns for tests of rules only."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.eventually import eventually
from harness.model.outcomes import Observation, Reached
from harness.model.topology import grid
from harness.netns.addresses import POD_CIDRS
from harness.netns.fabric import Network, NetworkPeer
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe, ProbeLoop, ServerPort
from reference.apiserver import ApiServer
from reference.client import ApiError, Client, Object
from reference.proxy import ServiceProxy, uapi
from reference.proxy.elements import read_elements
from reference.proxy.netlink import NftSocket, attributes, text

FAMILIES = ("IPv4", "IPv6")
PORT = 8080


@dataclass(slots=True)
class Cluster:
    """Nodes a1, a2 and b1 with proxies, pods a1-2, a1-3, a2-2 and b1-2 that serve port 8080, and an external client."""

    network: Network
    loop: ProbeLoop
    api: ApiServer = field(default_factory=ApiServer)
    proxies: dict[str, ServiceProxy] = field(default_factory=dict)
    hosts: dict[str, NetworkPeer] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def boot(self) -> None:
        """Start nodes, proxies and pods, and wait until the proxies have processed them."""
        self.hosts |= {**self.network.nodes, "external": self.network.external}
        for name in self.network.nodes:
            self.api.create("nodes", "", self.node(name))
            self.start_proxy(name)
        for node in ("a1", "a1", "a2", "b1"):
            pod = self.network.add_pod(node)
            self.hosts[pod.name] = pod
            self.loop.serve(pod.namespace, pod.name, [ServerPort(p, f, PORT) for p in ("TCP", "UDP") for f in FAMILIES])
        self.settle()

    def node(self, name: str, zone: str | None = None) -> Object:
        """Return the Node object. The default zone is the first letter of the node's name."""
        addresses = [{"type": "InternalIP", "address": each} for each in self.hosts[name].addresses.values()]
        return {
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone or name[0]}},
            "spec": {"podCIDRs": list(self.network.plan(name).pod_cidrs.values())},
            "status": {"addresses": addresses},
        }

    def start_proxy(self, node: str, client: Client | None = None) -> ServiceProxy:
        """Start a proxy on the node. By default it uses the API server's own client."""
        with self.hosts[node].namespace.entered():
            proxy = ServiceProxy(node, client or self.api, pod_cidrs=list(POD_CIDRS.values()))
        proxy.start()
        self.proxies[node] = proxy
        return proxy

    def service(self, *endpoints: str, **spec: Any) -> Object:
        """Create a dual-stack Service with these endpoints and TCP and UDP port 80. Wait until all nodes serve it."""
        name = f"web-{next(self.numbers)}"
        ports = [{"name": p.lower(), "port": 80, "targetPort": PORT, "protocol": p} for p in ("TCP", "UDP")]
        spec = {"ipFamilyPolicy": "RequireDualStack", "ports": ports, **spec}
        status = spec.pop("status", {})
        service = self.api.create("services", "default", {"metadata": {"name": name}, "spec": spec})
        if status:
            service = self.api.update_status("services", "default", {**service, "status": status})
        self.endpoints(service, *endpoints)
        return service

    def endpoints(self, service: Object, *endpoints: str) -> None:
        """Set the endpoints of the Service, such as "a1-2", "b1-2 zone=a", "a1-3 terminating", "a1-3 unready"."""
        name = service["metadata"]["name"]
        for family in FAMILIES:
            body = {
                "metadata": {"name": f"{name}-{family.lower()}", "labels": {"kubernetes.io/service-name": name}},
                "addressType": family,
                "ports": [{"name": p.lower(), "port": PORT, "protocol": p} for p in ("TCP", "UDP")],
                "endpoints": [self._endpoint(each, family) for each in endpoints],
            }
            try:
                self.api.update("endpointslices", "default", body)
            except ApiError:
                self.api.create("endpointslices", "default", body)
        self.settle()

    def _endpoint(self, words: str, family: Any) -> Object:
        pod, *rest = words.split()
        conditions = {"ready": not {"terminating", "unready"} & set(rest), "terminating": "terminating" in rest}
        conditions["serving"] = "unready" not in rest
        endpoint = {
            "addresses": [self.hosts[pod].addresses[family]],
            "conditions": conditions,
            "nodeName": pod.partition("-")[0],
        }
        for word in rest:
            if word.startswith("zone="):
                endpoint["hints"] = {"forZones": [{"name": word.removeprefix("zone=")}]}
        return endpoint

    def settle(self) -> None:
        """Wait until every proxy has programmed every change."""
        eventually(
            lambda: all(proxy.synced() for proxy in self.proxies.values()),
            within=10,
            describe="all proxies",
            every=0.001,
        )

    def ask(self, client: str, address: str, port: int = 80, **options: Any) -> Any:
        """Return the sorted names of the pods that answer, or the only other outcome. See `observe` for the options."""
        outcomes = self.observe(client, address, port, **options)
        reached = {each.pod for each in outcomes if isinstance(each, Reached)}
        others = {each for each in outcomes if not isinstance(each, Reached)}
        return " ".join(sorted(reached)) if not others else others.pop() if not reached and len(others) == 1 else others

    def observe(
        self, client: str, address: str, port: int = 80, *, protocol: str = "TCP", count: int = 24, patience: float = 2
    ) -> list[Observation]:
        """Return the results of `count` new connections. `patience` is the timeout in seconds of each connection."""
        probe = Probe(self.hosts[client].namespace, protocol, address, port, timeout=patience)
        return self.loop.probe([probe] * count)


@pytest.fixture(scope="module")
def cluster(netns_allowed: None) -> Iterator[Cluster]:
    """A cluster for all tests of the module. Each test has its own Services."""
    with Network(grid("proxy-tests", {"a": 2, "b": 1})) as network, ProbeLoop() as loop:
        made = Cluster(network, loop)
        made.boot()
        yield made
        for proxy in made.proxies.values():
            proxy.stop()


@pytest.fixture
def node(netns_allowed: None) -> Iterator[Namespace]:
    with Namespace.create() as made:
        yield made


@pytest.fixture
def nft(node: Namespace) -> Iterator[NftSocket]:
    """A netlink socket for nftables rules in that netns."""
    with node.entered():
        made = NftSocket()
    yield made
    made.close()


Content = dict[bytes, bytes]


def read_back(nft: NftSocket, family: str, name: str, table: str = "trafficdist") -> Content | None:
    """Return the elements of a set or map in the kernel: keys, and data if any.

    Return None if the table does not exist.
    """
    start = struct.pack(">BBH", {"IPv4": 2, "IPv6": 10}[family], 0, 0) + text(1, table)
    if not nft.exists(uapi.NFT_MSG_GETTABLE, start):
        return None
    elements = read_elements(lambda: nft.dump(uapi.NFT_MSG_GETSETELEM, start + text(2, name)))
    ends_of_intervals = uapi.NFTA_SET_ELEM_FLAGS
    return {
        _value(memoryview(parts[1])): _value(memoryview(parts[2])) if 2 in parts else b""
        for parts in elements
        if ends_of_intervals not in parts
    }


def _value(data: memoryview) -> bytes:
    kind, value = next(attributes(data))
    return bytes(value) if kind == 1 else bytes(dict(attributes(value))[2]).rstrip(b"\0")
