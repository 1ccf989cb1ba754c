"""A cluster as an explanation looks at it: its objects, found by name, and what is the same for all Services."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from harness.api.client import Object
from harness.explain.objects import Objects, kubelet_version
from reference.endpointslice.endpoints import is_ready
from reference.endpointslice.labels import node_zone, service_name
from reference.endpointslice.zones import ZoneTable, counts, milli_cpu
from reference.features import NEWEST, OLDEST, Features, Reading, Version
from reference.proxy.decision import Behaviour

ServiceName = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its zone ("" without), the release of its proxy, and what it is to hints in proportion to CPU.

    `counts`: it is ready, and no control plane node. `milli_cpu` is 0 where it is unknown. `proxy` says how the release
    is known: from the image of its proxy, or from its kubelet.
    """

    name: str
    zone: str
    version: Version
    proxy: str
    counts: bool
    milli_cpu: int
    proxy_ready: bool = True


class Cluster:
    """The objects of a cluster, indexed. `features` are those of its controller."""

    def __init__(self, objects: Objects, follow: Reading) -> None:
        self.objects = objects
        self.features = Features(version_of(objects.version) or NEWEST, follows=follow)
        self.services = {_name(each): each for each in objects.services}
        self.slices: Mapping[ServiceName, list[Object]] = defaultdict(list)
        for each in objects.endpointslices:
            if name := service_name(each):
                self.slices[each["metadata"].get("namespace", ""), name].append(each)
        self._behaviours = lru_cache(self._behaviour)

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name, in order."""
        proxies = {str((each.get("spec") or {}).get("nodeName", "")): each for each in self.objects.proxies}
        objects = sorted(self.objects.nodes, key=lambda each: str(each["metadata"]["name"]))
        return {found.name: found for each in objects for found in [self._node(each, proxies)]}

    def _node(self, node: Object, proxies: Mapping[str, Object]) -> Node:
        name, proxy = str(node["metadata"]["name"]), proxies.get(str(node["metadata"]["name"]))
        image = _image(proxy) if proxy else ""
        by_image, kubelet = version_of(image.rpartition(":")[2]), kubelet_version(node)
        return Node(
            name,
            node_zone(node),
            by_image or version_of(kubelet) or self.features.version,
            image if by_image else f"kubelet {kubelet or '?'}",
            counts(node, self.features),
            milli_cpu(str(((node.get("status") or {}).get("allocatable") or {}).get("cpu", ""))),
            proxy is None or is_ready(proxy),
        )

    @cached_property
    def zones(self) -> ZoneTable:
        """The CPU of the zones, as the controller sums it up."""
        return ZoneTable(self.features, {each["metadata"]["name"]: each for each in self.objects.nodes})

    @cached_property
    def names_of_zones(self) -> Sequence[str]:
        """The zones that nodes are in, in order."""
        return sorted({each.zone for each in self.nodes.values()} - {""})

    @cached_property
    def _pods(self) -> Mapping[str, list[Object]]:
        found: dict[str, list[Object]] = defaultdict(list)
        for each in self.objects.pods:
            found[each["metadata"].get("namespace", "")].append(each)
        return found

    def pods(self, service: Object) -> list[Object] | None:
        """Return the pods that a Service selects; None where that is not known."""
        selector = service["spec"].get("selector")
        if not selector or "pods" in self.objects.unread:
            return None
        wanted = selector.items()
        mine = self._pods.get(service["metadata"]["namespace"], ())
        return [each for each in mine if wanted <= (each["metadata"].get("labels") or {}).items()]

    @cached_property
    def _events(self) -> Mapping[ServiceName, list[Object]]:
        found: dict[ServiceName, list[Object]] = defaultdict(list)
        for each in self.objects.events:
            about = each.get("involvedObject") or {}
            if about.get("kind") == "Service":
                found[about.get("namespace", ""), about.get("name", "")].append(each)
        return found

    def events(self, service: Object) -> list[str]:
        """Return what the newest Events of each reason say of a Service, about topology; the newest first."""
        mine = [each for each in self._events.get(_name(service), ()) if "Topology" in str(each.get("reason", ""))]
        newest: dict[str, Object] = {str(each["reason"]): each for each in sorted(mine, key=_time)}
        return [
            f"{each['reason']}: {each.get('message', '')} ({_time(each) or 'at an unknown time'})"
            for each in sorted(newest.values(), key=_time, reverse=True)
        ]

    def controller(self) -> str:
        """Return what the Lease says of the controller; "" where there is none."""
        for each in self.objects.leases:
            if each["metadata"]["name"] == "kube-controller-manager":
                spec = each.get("spec") or {}
                held = spec.get("holderIdentity") or "nobody"
                return f"Lease kube-controller-manager: held by {held}, renewed {spec.get('renewTime', 'never')}"
        return ""

    def behaviour(self, version: Version) -> Behaviour:
        """Return what a proxy of a release decides by."""
        return self._behaviours(version)

    def _behaviour(self, version: Version) -> Behaviour:
        return Behaviour.of(Features(version, follows=self.features.follows))


def version_of(text: str) -> Version | None:
    """Return the Kubernetes release in "v1.34.2", or the nearest one that is known; None if there is none."""
    match = re.match(r"v?(\d+)\.(\d+)", text)
    return min(max((int(match[1]), int(match[2])), OLDEST), NEWEST) if match else None


def _name(obj: Object) -> ServiceName:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _image(pod: Object) -> str:
    containers = pod["spec"].get("containers") or ()
    return str(next((each.get("image", "") for each in containers if "kube-proxy" in each.get("image", "")), ""))


def _time(event: Object) -> str:
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event.get("firstTimestamp")
        or ""
    )
