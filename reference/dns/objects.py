"""Reads the data that DNS needs from Services, EndpointSlices and PodLocators."""

import ipaddress
from collections.abc import Callable, Iterable
from functools import lru_cache

from reference.client import Key, Object
from reference.dns.records import FAMILIES, Endpoint, Family, Port, Service
from reference.objects.endpoints import is_ready
from reference.objects.topology_keys import Labels

SERVICE_LABEL = "kubernetes.io/service-name"


@lru_cache(maxsize=65536)
def canonical(address: str) -> str:
    """Return an address in the form that sockets use. IPv4-mapped IPv6 addresses become IPv4. Raises `ValueError`."""
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def service_key(endpoint_slice: Object) -> Key | None:
    """Return the key of the Service that owns a slice, or None if the slice has no Service label."""
    name = (endpoint_slice["metadata"].get("labels") or {}).get(SERVICE_LABEL)
    return (endpoint_slice["metadata"].get("namespace") or "", name) if name else None


def is_headless(service: Object) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def topology_keys(service: Object) -> tuple[str, ...]:
    """Return `spec.topologyKeys` of a headless Service, or () for other Services, whose keys only proxies use."""
    return tuple(service["spec"].get("topologyKeys") or ()) if is_headless(service) else ()


def read_service(service: Object, keys: tuple[str, ...], endpoints: dict[Family, list[Endpoint]]) -> Service:
    """Return the DNS data of a Service. `endpoints` is the result of `read_endpoints`."""
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return Service(False, (), alias=spec.get("externalName", ""))
    if is_headless(service):
        return Service(True, keys, endpoints=endpoints)
    ports = tuple(Port(each.get("name") or "", each["protocol"].lower(), each["port"]) for each in spec["ports"])
    ips = [each for each in spec.get("clusterIPs") or [spec.get("clusterIP")] if each]
    return Service(False, (), ports, {"IPv6" if ":" in each else "IPv4": each for each in ips})


def read_endpoints(
    slices: Iterable[Object], labels_of: Callable[[Key | None, str], Labels | None]
) -> dict[Family, list[Endpoint]]:
    """Return the ready endpoints of slices by IP family, without duplicate addresses.

    `labels_of` takes the key of an endpoint's pod (or None) and the endpoint's address, and returns the node's labels.
    """
    found: dict[Family, list[Endpoint]] = {}
    seen: set[str] = set()
    for each in slices:
        if each["addressType"] not in FAMILIES:
            continue
        ports = tuple(
            Port(port.get("name") or "", (port.get("protocol") or "TCP").lower(), port["port"])
            for port in each.get("ports") or ()
            if port.get("port")
        )
        for endpoint in each.get("endpoints") or ():
            address = canonical(endpoint["addresses"][0])
            if is_ready(endpoint) and address not in seen:
                seen.add(address)
                labels = labels_of(_pod(endpoint, each), address) or frozenset()
                host = str(endpoint.get("hostname") or "").lower() or address.replace(".", "-").replace(":", "-")
                found.setdefault(each["addressType"], []).append(Endpoint(address, host, ports, labels))
    return found


def read_locator(locator: Object) -> tuple[tuple[str, ...], Labels | None]:
    """Return the addresses in a PodLocator, and the labels of the pod's node (None if the pod has no node)."""
    ips = tuple(canonical(each["ip"]) for each in locator.get("ips") or ())
    return ips, frozenset((locator.get("nodeLabels") or {}).items()) if locator.get("nodeName") else None


def _pod(endpoint: Object, endpoint_slice: Object) -> Key | None:
    target = endpoint.get("targetRef") or {}
    if target.get("kind") != "Pod":
        return None
    return target.get("namespace") or endpoint_slice["metadata"].get("namespace") or "", target.get("name") or ""
