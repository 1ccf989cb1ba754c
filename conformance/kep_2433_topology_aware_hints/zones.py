"""Helpers for zones of any size and Services with the topology annotation, which most KEP-2433 scenarios use.

The KEP's own way to request hints, `trafficPolicy: PreferZone` on the Service, was never implemented. Releases use an
annotation: topology-aware-hints from 1.21 on, topology-mode from 1.27 on. For `PreferZone` in the KEP, requirements use
the annotation with the value Auto.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from trafficdist import (
    Cluster,
    Hints,
    Service,
)

WEB = {"app": "web"}
MODE, AWARE_HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
AUTO = {MODE: "Auto"}
ZONE = {zone: Hints(zones=(zone,)) for zone in "abcd"}
_LOOKS = itertools.count(1)


def size_zones(cluster: Cluster, **cores: int) -> None:
    """Set the number of cores of these zones. All other zones lose their nodes.

    The nodes of other zones move to the first of the given zones. A zone that has no nodes in the cluster gets a new
    Node object such as d1.
    """
    first = next(iter(cores))
    places = {node.name: node.zone if node.zone in cores else first for node in cluster.topology.nodes}
    for zone in cores.keys() - set(places.values()):
        cluster.nodes.create(f"{zone}1", zone, cpu_milli=1000 * cores[zone])
    for zone in set(places.values()):
        _size_zone(cluster, zone, [name for name, place in places.items() if place == zone], 1000 * cores[zone])


def _size_zone(cluster: Cluster, zone: str, names: list[str], cpu_milli: int) -> None:
    for number, name in enumerate(names):
        share = cpu_milli // len(names) + (cpu_milli % len(names) if number == 0 else 0)
        if cluster.topology.node(name).zone != zone:
            cluster.nodes.move(name, zone)
        cluster.nodes.resize(name, share)


def create_pods(cluster: Cluster, zones: str, *, first: int = 1) -> None:
    """Create pods p1, p2 …, one per letter, on the first node in that zone: "aab" is two pods in a and one in b."""
    for number, zone in enumerate(zones, first):
        cluster.create_pod(f"p{number}", f"{zone}1", labels=WEB)


def create_auto(cluster: Cluster, **options: object) -> Service:
    """Create a Service that selects the pods of `create_pods` and requests CPU-based hints, with these fields."""
    return cluster.create_service(selector=WEB, annotations=AUTO, **options)  # type: ignore[arg-type]


def touch(cluster: Cluster, service: Service) -> None:
    """Change an unrelated annotation of a Service, so that the controller processes the Service again."""
    cluster.patch_service(service, {"metadata": {"annotations": {"example.org/look": str(next(_LOOKS))}}})


def give_other_ports(cluster: Cluster, service: Service) -> None:
    """Change a Service so that a controller must write its slices."""
    cluster.patch_service(service, {"spec": {"ports": [{"name": "other", "port": 81, "targetPort": 8081}]}})


def own_zones(zones: str) -> Mapping[str, Hints | None]:
    """Return the expected hints, for `expect_hints`, if each pod of `create_pods` has a hint for its own zone."""
    return {f"p{number}": ZONE[zone] for number, zone in enumerate(zones, 1)}


def unhinted(zones: str) -> Mapping[str, Hints | None]:
    """Return the expected hints, for `expect_hints`, if no pod of `create_pods` has a hint."""
    return dict.fromkeys(own_zones(zones))


def hinted_for_own_zone(zones: str, hinted: Mapping[str, AbstractSet[str]]) -> dict[str, int]:
    """Return the number of pods hinted for their own zone, by zone. `hinted` is a result of `expect_hint_counts`."""
    places = {f"p{number}": zone for number, zone in enumerate(zones, 1)}
    return {zone: sum(places.get(name) == zone for name in names) for zone, names in sorted(hinted.items())}
