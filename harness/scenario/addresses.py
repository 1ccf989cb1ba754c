"""Addresses that a cloud or an administrator gives to a Service: one of each kind a node, routed to that node."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from harness.backends.protocols import VIRTUAL, VIRTUAL_ADDRESSES, VirtualAddresses
from harness.backends.scenario_backend import ScenarioBackend
from harness.scenario.service import AddressKind, Service

if TYPE_CHECKING:
    from harness.scenario.cluster import Cluster

Virtual = dict[tuple[AddressKind, str], Mapping[str, str]]
"""The addresses of each kind and node, by family."""


def virtual_addresses(backend: ScenarioBackend, kinds: Collection[AddressKind], number: int) -> Virtual:
    """Return addresses of these kinds for all nodes; numbers that 254 lie between have the same."""
    nodes = [node.name for node in backend.booted.topology.nodes]
    return {
        (kind, node): backend.part(VirtualAddresses, VIRTUAL[kind], nodes=[node]).virtual_addresses(
            kind, node, (number - 1) % VIRTUAL_ADDRESSES + 1
        )
        for kind in kinds
        for node in nodes
    }


def set_addresses(cluster: Cluster, service: Service, kinds: Collection[AddressKind]) -> None:
    """Let a live Service have one address a node of these kinds, and none of others.

    Kinds are "external-ip", and "load-balancer" for a LoadBalancer. What was taken away comes back the same.
    Raises `RefusedError`.
    """
    new = [kind for kind in kinds if not service.addresses(kind)]
    service.virtual = {**service.virtual, **virtual_addresses(cluster.backend, new, cluster.next_number())}
    external = service.addresses("external-ip") if "external-ip" in kinds else None
    asked = service.asked
    cluster.patch_service(service, {"spec": {"externalIPs": external}})
    service.asked = asked
    if service.object["spec"]["type"] == "LoadBalancer":
        cluster.set_ingress(service, service.addresses("load-balancer") if "load-balancer" in kinds else [])
