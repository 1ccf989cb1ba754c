"""The endpoints that all slices of a Service should contain, grouped by their ports.

The desired state is a set of endpoints for each address family and port set. `packing` distributes the set over slices.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from reference.client import Object
from reference.endpointslice.endpoints import (
    AddressType,
    Identity,
    PortKey,
    endpoint_of,
    endpoint_ports,
    identity,
    pod_addresses,
    port_key,
)
from reference.endpointslice.labels import node_zone

Why = Literal["Terminal", "NoAddress", "NodeNotFound"]

_NOBODY: Identity = ((), "", "", "")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A pod that matches the selector but has no endpoint, and the reason."""

    pod: str
    why: Why
    node: str = ""


@dataclass(slots=True)
class PortGroup:
    """The endpoints that have the same set of ports, so that they can share slices."""

    ports: list[Object]
    endpoints: dict[Identity, Object] = field(default_factory=dict)


@dataclass(slots=True)
class Desired:
    """The endpoints that the slices of one Service should contain in one address family."""

    groups: dict[PortKey, PortGroup] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)


@dataclass(slots=True)
class _Result:
    """The endpoint for one pod, if it has one. `where` is the zone of its node, or None if the node does not exist."""

    pod: Object
    where: str | None
    left_out: LeftOut | None = None
    key: PortKey | None = None
    ports: list[Object] = field(default_factory=list)
    endpoint: Object | None = None
    identity: Identity = _NOBODY


@dataclass(slots=True)
class Memo:
    """A cache of results for unchanged pods.

    Objects from a client are immutable, so a pod object yields the same endpoint until its Service or zone changes.
    """

    service: Object | None = None
    results: dict[AddressType, dict[str, _Result]] = field(default_factory=dict)

    def take(self, service: Object, address_type: AddressType) -> dict[str, _Result]:
        """Return the results of the last sync by pod name, or no results if the Service has changed."""
        if self.service is not service:
            if self.service is None or not _same_to_endpoints(self.service, service):
                self.results.clear()
            self.service = service
        return self.results.get(address_type, {})

    def renew(self, address_type: AddressType) -> dict[str, _Result]:
        """Return an empty dict for the results of this sync."""
        results = self.results[address_type] = {}
        return results


def _same_to_endpoints(one: Object, other: Object) -> bool:
    """Return whether two versions of a Service yield the same endpoints. The status of a Service is ignored."""
    return bool(one["spec"] == other["spec"] and one["metadata"]["name"] == other["metadata"]["name"])


def desired_endpoints(
    service: Object,
    pods: Iterable[Object],
    nodes: Mapping[str, Object],
    address_type: AddressType,
    memo: Memo | None = None,
) -> Desired:
    """Return the endpoints of all `pods` in one address family, grouped by port set.

    A pod whose Node is missing is left out, unless the Service publishes addresses that are not ready; then the pod has
    an endpoint without a zone. A port set stays in the result even if none of its pods has an address in this family.
    """
    memo = Memo() if memo is None else memo
    before, results = memo.take(service, address_type), memo.renew(address_type)
    read_pod = _reader(service, address_type)
    desired = Desired()
    for pod in pods:
        name = pod["metadata"]["name"]
        node = nodes.get(pod["spec"].get("nodeName", ""))
        where = None if node is None else node_zone(node)
        result = before.get(name)
        if result is None or result.pod is not pod or result.where != where:
            result = read_pod(pod, where)
        results[name] = result
        _add(desired, result)
    return desired


def _add(desired: Desired, result: _Result) -> None:
    if result.key is not None:
        group = desired.groups.get(result.key)
        if group is None:
            group = desired.groups[result.key] = PortGroup(result.ports)
        if result.endpoint is not None:
            group.endpoints[result.identity] = result.endpoint
    if result.left_out is not None:
        desired.left_out.append(result.left_out)


def _reader(service: Object, address_type: AddressType) -> Callable[[Object, str | None], _Result]:
    """Return a function from pod and zone to result. Ports without named targets are resolved only once."""
    publish = bool(service["spec"].get("publishNotReadyAddresses"))
    named = any(isinstance(port.get("targetPort"), str) for port in service["spec"].get("ports") or ())
    common = _keyed([] if named else endpoint_ports(service, {}))

    def read_pod(pod: Object, where: str | None) -> _Result:
        why = _why_absent(pod)
        if why is not None:
            return _Result(pod, where, LeftOut(pod["metadata"]["name"], why))
        key, ports = _keyed(endpoint_ports(service, pod)) if named else common
        if where is None and not publish:
            missing = LeftOut(pod["metadata"]["name"], "NodeNotFound", pod["spec"].get("nodeName", ""))
            return _Result(pod, where, missing, key, ports)
        addresses = pod_addresses(pod, address_type)
        if not addresses:
            return _Result(pod, where, None, key, ports)
        endpoint = endpoint_of(pod, where or "", service, addresses)
        return _Result(pod, where, None, key, ports, endpoint, identity(endpoint))

    return read_pod


def _keyed(ports: list[Object]) -> tuple[PortKey, list[Object]]:
    return port_key(ports), ports


def _why_absent(pod: Object) -> Why | None:
    status = pod.get("status", {})
    if status.get("phase") in {"Succeeded", "Failed"}:
        return "Terminal"
    if not status.get("podIP") and not status.get("podIPs"):
        return "NoAddress"
    return None
