"""A small cluster for the DNS server, with Services, slices, PodLocators, and queries over a real socket."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any, Self

import dns.message
import dns.query
import dns.rdatatype

from harness.eventually import eventually
from reference.apiserver import ApiServer
from reference.client import Object
from reference.dns import DnsServer
from reference.features import Features
from tests.reference.api_server_calls import listed

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WITH_KEYS = Features(gates={"ServiceTopology": True})


class DnsCluster:
    """An API server, and its DNS server on loopback."""

    def __init__(self, **options: Any) -> None:
        self.api = ApiServer(WITH_KEYS)
        self.server = DnsServer(self.api, features=WITH_KEYS, **options)
        self.port = 0
        self._udp: socket.socket | None = None

    def __enter__(self) -> Self:
        udp, tcp = socket.socket(type=socket.SOCK_DGRAM), socket.socket()
        tcp.bind(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", self.port))
        tcp.listen()
        for each in (udp, tcp):
            self.server.listen(each)
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def settle(self) -> None:
        eventually(self.server.synced, describe="the DNS server to be synced", every=0.0002)

    def create_service(self, name: str = "web", **spec: Any) -> Object:
        ports = [{"name": "http", "port": 80}]
        return self.api.create("services", "default", {"metadata": {"name": name}, "spec": {"ports": ports, **spec}})

    def create_headless(self, name: str = "web", keys: Sequence[str] = (), **spec: Any) -> Object:
        keyed = {"topologyKeys": list(keys)} if keys else {}
        return self.create_service(name, clusterIP="None", **keyed, **spec)

    def publish(
        self, service: str, *endpoints: Object, name: str = "one", family: str = "IPv4", port: int = 80
    ) -> None:
        """Create or replace an EndpointSlice of a Service."""
        obj = {
            "metadata": {"name": f"{service}-{name}", "labels": {"kubernetes.io/service-name": service}},
            "addressType": family,
            "endpoints": list(endpoints),
            "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
        }
        there = {each["metadata"]["name"] for each in listed(self.api, "endpointslices")}
        write = self.api.update if obj["metadata"]["name"] in there else self.api.create
        write("endpointslices", "default", obj)

    def locate(self, pod: str, node: str, *ips: str, labels: Mapping[str, str] | None = None) -> None:
        """Write the PodLocator of a pod. The first letter of a node's name is its zone."""
        labels = {HOST: node, ZONE: node[:1]} if labels is None else labels
        said = {"ips": [{"ip": ip} for ip in ips], "nodeName": node, "nodeLabels": dict(labels) if node else {}}
        there = {each["metadata"]["name"] for each in listed(self.api, "podlocators")}
        write = self.api.update if pod in there else self.api.create
        write("podlocators", "default", {"metadata": {"name": pod}, **said})

    def ask(
        self,
        name: str,
        kind: str = "A",
        *,
        client: str = "127.0.0.1",
        tcp: bool = False,
        payload: int | None = 4096,
        **options: Any,
    ) -> dns.message.Message:
        """Wait until the server has processed all writes, and send one query from a loopback address."""
        self.settle()
        edns = {"use_edns": 0, "payload": payload} if payload else {}
        query = dns.message.make_query(full(name), kind, **(edns | options))
        send = dns.query.tcp if tcp else dns.query.udp
        return send(query, "127.0.0.1", port=self.port, source=client, timeout=5)

    def addresses(self, name: str = "web", kind: str = "A", **options: Any) -> list[str]:
        """Return the addresses in the answer, sorted."""
        return sorted(told(self.ask(name, kind, **options)))


def full(name: str) -> str:
    """Return the full DNS name of a Service in namespace default. Full names are returned unchanged."""
    if name.endswith("."):
        return name
    return f"{name}.default.svc.cluster.local."


def told(answer: dns.message.Message) -> list[str]:
    """Return the data of the answer's records in order."""
    return [each.to_text() for rrset in answer.answer for each in rrset]


def rcode(answer: dns.message.Message) -> str:
    return dns.rcode.to_text(answer.rcode())


def at(ip: str, *, pod: str = "", ready: bool | None = True, **fields: Any) -> Object:
    """An endpoint."""
    target = {"targetRef": {"kind": "Pod", "name": pod, "namespace": "default"}} if pod else {}
    return {"addresses": [ip], "conditions": {"ready": ready} if ready is not None else {}, **target, **fields}
