"""The endpoints that a Service's slices should contain in one address family, without hints, grouped by ports."""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from reference.client import Object
from reference.endpointslice.labels import is_headless, node_zone

AddressType = Literal["IPv4", "IPv6"]
PortKey = tuple[tuple[str, str, int, str], ...]
Identity = tuple[tuple[str, ...], str, str, str]

ADDRESS_TYPES: tuple[AddressType, ...] = ("IPv4", "IPv6")
_NOBODY: Identity = ((), "", "", "")


def endpoint_of(pod: Object, zone: str, service: Object, addresses: list[str]) -> Object:
    """Return a pod's endpoint. With publishNotReadyAddresses, it is always ready. `zone` is "" if unknown."""
    metadata, spec = pod["metadata"], pod["spec"]
    serving = is_ready(pod)
    terminating = metadata.get("deletionTimestamp") is not None
    ready = bool(service["spec"].get("publishNotReadyAddresses")) or (serving and not terminating)
    endpoint: Object = {
        "addresses": addresses,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata.get("uid", ""),
        },
    }
    if node_name := spec.get("nodeName"):
        endpoint["nodeName"] = node_name
    if zone:
        endpoint["zone"] = zone
    if spec.get("hostname") and spec.get("subdomain", "") == service["metadata"]["name"]:
        endpoint["hostname"] = spec["hostname"]
    return endpoint


def identity(endpoint: Object) -> Identity:
    """Return the identity of an endpoint: its addresses, hostname and pod. All other fields can be updated in place.

    Two pods that share an address are two endpoints. A pod in two slices is one endpoint.
    """
    target = endpoint.get("targetRef") or {}
    addresses = endpoint["addresses"]
    return (
        tuple(addresses) if len(addresses) == 1 else tuple(sorted(addresses)),
        endpoint.get("hostname") or "",
        target.get("namespace", ""),
        target.get("name", ""),
    )


def address_types(service: Object) -> tuple[AddressType, ...]:
    """Return the IP families of `service`. The default is the cluster IP's family, or both families if headless."""
    families = service["spec"].get("ipFamilies") or ()
    named = tuple(family for family in ADDRESS_TYPES if family in families)
    if named:
        return named
    if is_headless(service):
        return ADDRESS_TYPES
    return ("IPv6",) if ":" in service["spec"]["clusterIP"] else ("IPv4",)


def endpoint_ports(service: Object, pod: Object) -> list[Object]:
    """Return the ports of `service` on `pod`, in the Service's order. Named ports that the pod lacks are left out."""
    found = []
    for service_port in service["spec"].get("ports") or ():
        number = _target_port(service_port, pod)
        if number is None:
            continue
        port: Object = {
            "name": service_port.get("name", ""),
            "port": number,
            "protocol": service_port.get("protocol", "TCP"),
        }
        if "appProtocol" in service_port:
            port["appProtocol"] = service_port["appProtocol"]
        found.append(port)
    return found


def port_key(ports: Iterable[Object] | None) -> PortKey:
    """Return a key for a set of ports. Neither the order of the ports nor explicit defaults change the key."""
    return tuple(
        sorted(
            (
                port.get("name") or "",
                port.get("protocol") or "TCP",
                port.get("port") or 0,
                port.get("appProtocol") or "",
            )
            for port in ports or ()
        )
    )


def pod_addresses(pod: Object, address_type: AddressType) -> list[str]:
    """Return the pod's IP addresses in one family, in canonical form."""
    status = pod["status"]
    addresses = []
    for pod_ip in status.get("podIPs") or ({"ip": status.get("podIP", "")},):
        family, address = _canonical(pod_ip["ip"])
        if family == address_type:
            addresses.append(address)
    return addresses


def is_ready(pod: Object) -> bool:
    """Return whether the pod's Ready condition is True. A pod without the condition is not ready."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return False


def projection(pod: Object) -> tuple[object, ...]:
    """Return the parts of a pod that slices depend on. An update that changes none of these parts needs no sync."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    return (
        metadata.get("uid"),
        metadata.get("deletionTimestamp") is None,
        spec.get("nodeName"),
        spec.get("hostname"),
        spec.get("subdomain"),
        is_ready(pod),
        status.get("phase") in {"Succeeded", "Failed"},
        status.get("podIP"),
        status.get("podIPs"),
        metadata.get("labels"),
        metadata.get("ownerReferences"),
    )


def _target_port(service_port: Object, pod: Object) -> int | None:
    target = service_port.get("targetPort") or service_port["port"]
    if isinstance(target, int):
        return target
    protocol = service_port.get("protocol", "TCP")
    for container in _serving_containers(pod):
        for port in container.get("ports") or ():
            if port.get("name") == target and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return None


def _serving_containers(pod: Object) -> Iterable[Object]:
    """Yield the containers, then the sidecars, which are init containers with restartPolicy Always."""
    yield from pod["spec"].get("containers") or ()
    for container in pod["spec"].get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container


@lru_cache(maxsize=65536)
def _canonical(text: str) -> tuple[str, str]:
    """Return an address's family and canonical form, or ("", "") if invalid. IPv4 may have leading zeros."""
    if "." in text and ":" not in text:
        text = ".".join(part.lstrip("0") or "0" for part in text.split("."))
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "", ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return "", ""
        if address.ipv4_mapped is not None:
            return "IPv4", str(address.ipv4_mapped)
        return "IPv6", str(address)
    return "IPv4", str(address)


@dataclass(frozen=True, slots=True)
class ExcludedPod:
    """A pod that matches the selector but has no endpoint, because its Node does not exist."""

    pod: str
    node: str


@dataclass(slots=True)
class PortGroup:
    """The endpoints that have the same set of ports, so that they can share slices."""

    ports: list[Object]
    endpoints: dict[Identity, Object] = field(default_factory=dict)


@dataclass(slots=True)
class DesiredEndpoints:
    groups: dict[PortKey, PortGroup] = field(default_factory=dict)
    missing_nodes: list[ExcludedPod] = field(default_factory=list)


@dataclass(slots=True)
class _PodResult:
    """`where` is the zone of the pod's node, or None if the node does not exist."""

    pod: Object
    where: str | None
    left_out: ExcludedPod | None = None
    key: PortKey | None = None
    ports: list[Object] = field(default_factory=list)
    endpoint: Object | None = None
    identity: Identity = _NOBODY


@dataclass(slots=True)
class EndpointCache:
    """Caches a Service's endpoints by pod object. Objects are immutable, and a changed pod is a new object."""

    service: Object | None = None
    results: dict[AddressType, dict[str, _PodResult]] = field(default_factory=dict)

    def renew(self, service: Object, address_type: AddressType) -> tuple[dict[str, _PodResult], dict[str, _PodResult]]:
        """Return the last results by pod name (none if the Service's spec has changed), and a dict for new results."""
        if self.service is not service:
            if self.service is not None and self.service["spec"] != service["spec"]:
                self.results.clear()
            self.service = service
        before = self.results.get(address_type, {})
        results = self.results[address_type] = {}
        return before, results


def desired_endpoints(
    service: Object,
    pods: Iterable[Object],
    nodes: Mapping[str, Object],
    address_type: AddressType,
    memo: EndpointCache | None = None,
) -> DesiredEndpoints:
    """Return the endpoints of all `pods` in one address family, grouped by port set.

    A pod whose Node is missing is left out, or has an endpoint without a zone if the Service has
    publishNotReadyAddresses. A port set stays in the result even if none of its pods has an address in this family.
    """
    memo = EndpointCache() if memo is None else memo
    before, results = memo.renew(service, address_type)
    read_pod = _reader(service, address_type)
    desired = DesiredEndpoints()
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


def _add(desired: DesiredEndpoints, result: _PodResult) -> None:
    if result.key is not None:
        group = desired.groups.get(result.key)
        if group is None:
            group = desired.groups[result.key] = PortGroup(result.ports)
        if result.endpoint is not None:
            group.endpoints[result.identity] = result.endpoint
    if result.left_out is not None:
        desired.missing_nodes.append(result.left_out)


def _reader(service: Object, address_type: AddressType) -> Callable[[Object, str | None], _PodResult]:
    """Return a function that reads a pod, given its node's zone. If all target ports are numbers, resolve them once."""
    publish = bool(service["spec"].get("publishNotReadyAddresses"))
    named = any(isinstance(port.get("targetPort"), str) for port in service["spec"].get("ports") or ())
    common = [] if named else endpoint_ports(service, {})
    common_key = port_key(common)

    def read_pod(pod: Object, where: str | None) -> _PodResult:
        if _has_no_endpoint(pod):
            return _PodResult(pod, where)
        ports = endpoint_ports(service, pod) if named else common
        key = port_key(ports) if named else common_key
        if where is None and not publish:
            missing = ExcludedPod(pod["metadata"]["name"], pod["spec"].get("nodeName", ""))
            return _PodResult(pod, where, missing, key, ports)
        addresses = pod_addresses(pod, address_type)
        if not addresses:
            return _PodResult(pod, where, None, key, ports)
        endpoint = endpoint_of(pod, where or "", service, addresses)
        return _PodResult(pod, where, None, key, ports, endpoint, identity(endpoint))

    return read_pod


def _has_no_endpoint(pod: Object) -> bool:
    status = pod.get("status", {})
    return status.get("phase") in {"Succeeded", "Failed"} or not (status.get("podIP") or status.get("podIPs"))
