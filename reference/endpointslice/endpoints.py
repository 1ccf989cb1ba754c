"""Converts pods to endpoints of one Service and one address family.

`desired` decides which pods have an endpoint, `packing` selects the slice, and `hints` sets the hints. Endpoints are
EndpointSlice JSON without hints.
"""

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from reference.client import Object
from reference.endpointslice.labels import is_headless

AddressType = Literal["IPv4", "IPv6"]
PortKey = tuple[tuple[str, str, int, str], ...]
Identity = tuple[tuple[str, ...], str, str, str]

ADDRESS_TYPES: tuple[AddressType, ...] = ("IPv4", "IPv6")


def endpoint_of(pod: Object, zone: str, service: Object, addresses: list[str]) -> Object:
    """Return one endpoint. It is ready if it is serving and not terminating, or always published. `zone` may be ""."""
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

    Two pods that share an address are two endpoints. A pod that occurs in two slices is one endpoint.
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
    """Return the IP families of `service`. The default is the family of its cluster IP, or both if it is headless."""
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
    """Return a key that is equal for equal port sets, in any order and with or without explicit defaults."""
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
        family, text = _canonical(pod_ip["ip"])
        if family == address_type:
            addresses.append(text)
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
    """Return the family and the canonical text, or ("", "") if invalid. Old clients wrote IPv4 with leading zeros."""
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
