"""Expectations about a controller's slices: the endpoints of a Service and their hints, read through the API.

Like traffic, hints are expected as a literal table and compared as a whole: an endpoint too many is as wrong as a
missing one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from harness.model.manifests import Hints, Object
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import come_to_stay, kept_for_long, limit
from harness.scenario.service import Service


@dataclass(frozen=True, slots=True)
class WrittenEndpoint:
    """An endpoint as a controller wrote it, and the slices that it is in. Conditions that it left out are `None`."""

    pod: str
    ready: bool | None
    serving: bool | None
    terminating: bool | None
    zone: str | None
    node: str | None
    hints: Hints | None
    slices: tuple[str, ...]


def written_endpoints(cluster: Cluster, service: Service, family: str = "IPv4") -> dict[str, WrittenEndpoint]:
    """Return the endpoints of a Service by pod name, from all its slices of an address family.

    A pod may be in a slice for each port: slices that have different ports and agree about the pod make one endpoint.
    Any other slice that has the pod makes one more, whose name says so.
    """
    found: dict[str, WrittenEndpoint] = {}
    ports: dict[str, set[str]] = {}
    for each in cluster.slices(service):
        mine = {port.get("name") or "" for port in each.get("ports") or ()} or {""}
        for endpoint in (each.get("endpoints") or ()) if each["addressType"] == family else ():
            written = _read(endpoint, each["metadata"]["name"])
            before = found.get(written.pod)
            if before is None:
                found[written.pod], ports[written.pod] = written, set(mine)
            elif replace(before, slices=written.slices) == written and mine.isdisjoint(ports[written.pod]):
                found[written.pod] = replace(before, slices=before.slices + written.slices)
                ports[written.pod] |= mine
            else:
                found[f"{written.pod} again, in {each['metadata']['name']}"] = written
    return found


def expect_hints(
    cluster: Cluster, service: Service, expected: Mapping[str, Hints | None], *, family: str = "IPv4"
) -> dict[str, WrittenEndpoint]:
    """Expect the controller to write just these endpoints with these hints (`None`: no hints). Returns the endpoints.

    They stay so when it has worked on everything, see `come_to_stay`. Raises `AssertionError` with both tables.
    """
    seen = come_to_stay(
        cluster,
        f"the {family} endpoints of service {service.name}",
        lambda: written_endpoints(cluster, service, family),
        lambda seen: {pod: each.hints for pod, each in seen.items()} == dict(expected),
        shown=_shown,
    )
    hints = {pod: each.hints for pod, each in seen.items()}
    cluster.expect_equal(
        f"{family} endpoints and hints of service {service.name} after at most {limit(cluster)}",
        expected={pod: _cell(expected, pod) for pod in sorted(expected)},
        observed=_shown(seen),
        explanation=_tables(expected, hints),
    )
    return seen


def expect_shared_out(
    cluster: Cluster, service: Service, expected: Mapping[str, int], *, family: str = "IPv4"
) -> dict[str, set[str]]:
    """Expect the controller to hint every endpoint for one zone, with this number of endpoints for each zone.

    A heuristic over all endpoints is judged in this way: the KEP says how many, and leaves open which. Returns the
    names of the pods by the zone that they are hinted for. Raises `AssertionError` with both counts.
    """
    pods = come_to_stay(
        cluster,
        f"the {family} hints of service {service.name}",
        lambda: _by_hinted_zone(cluster, service, family),
        lambda pods: _counts(pods) == dict(expected),
        shown=_counts,
    )
    cluster.expect_equal(
        f"{family} endpoints of service {service.name} by the one zone that each is hinted for",
        expected=dict(sorted(expected.items())),
        observed=_counts(pods),
        explanation="\n".join(f"{zone}: {', '.join(sorted(names))}" for zone, names in sorted(pods.items())),
    )
    return pods


def expect_enough(
    cluster: Cluster, service: Service, fewest: Mapping[str, int], *, endpoints: int, family: str = "IPv4"
) -> dict[str, set[str]]:
    """Expect the controller to hint each of the `endpoints` for one of these zones, and at least `fewest` for each.

    A KEP may leave the numbers open: it bounds the overload of a zone, and any hints below the bound are right. The
    numbers stand in the report. Returns and raises as `expect_shared_out` does.
    """

    def summed_up(pods: Mapping[str, AbstractSet[str]]) -> dict[str, int]:
        short = {zone: len(pods.get(zone, ())) for zone, least in fewest.items() if len(pods.get(zone, ())) < least}
        strange = {zone: len(names) for zone, names in pods.items() if zone not in fewest}
        return {"in all": sum(map(len, pods.values())), **short, **strange}

    pods = come_to_stay(
        cluster,
        f"the {family} hints of service {service.name}",
        lambda: _by_hinted_zone(cluster, service, family),
        lambda pods: summed_up(pods) == {"in all": endpoints},
        shown=_counts,
    )
    counts = _counts(pods)
    cluster.measured(f"{family} endpoints of service {service.name} by the zone that they are hinted for", counts)
    cluster.expect_equal(
        f"{family} endpoints of service {service.name}, and by zone where they are fewer than allowed",
        expected={"in all": endpoints},
        observed=summed_up(pods),
        explanation=f"at least {dict(fewest)} were needed, and there are {counts}",
    )
    return pods


def _counts(pods: Mapping[str, AbstractSet[str]]) -> dict[str, int]:
    return {zone: len(names) for zone, names in sorted(pods.items())}


def _by_hinted_zone(cluster: Cluster, service: Service, family: str) -> dict[str, set[str]]:
    """Return the names of pods by the one zone that each is hinted for, else by the number of its zones."""
    pods: dict[str, set[str]] = {}
    for pod, each in written_endpoints(cluster, service, family).items():
        zones = each.hints.zones if each.hints is not None else ()
        pods.setdefault(zones[0] if len(zones) == 1 else f"{len(zones)} zones", set()).add(pod)
    return pods


def expect_conditions(
    cluster: Cluster, service: Service, expected: Mapping[str, tuple[bool, bool, bool]], *, family: str = "IPv4"
) -> None:
    """Expect these endpoints to get these conditions: ready, serving, terminating.

    A condition that is left out counts as the API says: ready; not terminating; serving like ready in older texts, and
    serving in newer ones. Raises `AssertionError` that names the first wrong endpoint.
    """
    seen = come_to_stay(
        cluster,
        f"the conditions of {family} endpoints of service {service.name}",
        lambda: _conditions(cluster, service, expected, family),
        lambda seen: all(seen.get(pod) == conditions for pod, conditions in expected.items()),
    )
    for pod, conditions in expected.items():
        what = f"ready, serving, terminating of {pod}"
        cluster.expect_equal(what, expected=conditions, observed=seen.get(pod))


def _conditions(
    cluster: Cluster, service: Service, expected: Mapping[str, tuple[bool, bool, bool]], family: str
) -> dict[str, tuple[bool, bool, bool]]:
    """Return ready, serving and terminating of each endpoint, by pod name."""
    seen = {}
    for pod, each in written_endpoints(cluster, service, family).items():
        ready, serving = each.ready is not False, each.serving
        if serving is None:
            serving = ready if pod in expected and expected[pod][1] == ready else True
        seen[pod] = (ready, serving, bool(each.terminating))
    return seen


@contextlib.contextmanager
def expect_unchanged(cluster: Cluster, *services: Service) -> Iterator[None]:
    """Expect that the controller writes no slice of these Services because of the events in the block.

    Raises `AssertionError` with the resource versions.
    """
    cluster.settle()
    before = _versions(cluster, services)
    yield
    cluster.settle()
    what = f"resource versions of the slices of {', '.join(each.name for each in services)}"
    after = kept_for_long(what, lambda: _versions(cluster, services), lambda seen: seen == before)
    cluster.expect_equal(what, expected=before, observed=after)


@contextlib.contextmanager
def expect_writes(cluster: Cluster, service: Service, event: str, *, at_most: int | None = None) -> Iterator[None]:
    """In the block, `event` happens. Because of it, the controller writes slices of this Service so often at most.

    A write is a slice that came, went or changed; one that changed several times counts by its generation. The number
    stands in the report, also where any is right (`None`). Raises `AssertionError`.
    """
    cluster.settle()
    before = _metadata(cluster, service)
    yield
    cluster.settle()
    after = _metadata(cluster, service)
    writes = len(before.keys() ^ after.keys())
    writes += sum(_writes(before[name], after[name]) for name in before.keys() & after.keys())
    cluster.measured(event, {"writes": writes, "slices": len(before)})
    if at_most is not None:
        cluster.expect_within(f"writes of slices of service {service.name} when {event}", 0, at_most, observed=writes)


def _metadata(cluster: Cluster, service: Service) -> dict[str, Object]:
    return {each["metadata"]["name"]: each["metadata"] for each in cluster.slices(service)}


def _writes(before: Object, after: Object) -> int:
    if before["resourceVersion"] == after["resourceVersion"]:
        return 0
    return max(1, int(after["generation"]) - int(before["generation"]))


def _versions(cluster: Cluster, services: Sequence[Service]) -> dict[str, str]:
    found = {name: each for service in services for name, each in _metadata(cluster, service).items()}
    return {name: each["resourceVersion"] for name, each in found.items()}


def _read(endpoint: Object, slice_name: str) -> WrittenEndpoint:
    conditions = endpoint.get("conditions") or {}
    target = endpoint.get("targetRef") or {}
    return WrittenEndpoint(
        pod=target.get("name") or ",".join(endpoint["addresses"]),
        ready=conditions.get("ready"),
        serving=conditions.get("serving"),
        terminating=conditions.get("terminating"),
        zone=endpoint.get("zone"),
        node=endpoint.get("nodeName"),
        hints=_read_hints(endpoint.get("hints")),
        slices=(slice_name,),
    )


def _read_hints(hints: Object | None) -> Hints | None:
    if not hints:
        return None
    zones = tuple(each.get("name") or "" for each in hints.get("forZones") or ())
    nodes = tuple(each.get("name") or "" for each in hints.get("forNodes") or ())
    return Hints(zones, nodes) if zones or nodes else None


def _shown(endpoints: Mapping[str, WrittenEndpoint]) -> dict[str, str]:
    hints = {pod: each.hints for pod, each in sorted(endpoints.items())}
    return {pod: _cell(hints, pod) for pod in hints}


def _tables(wanted: Mapping[str, Hints | None], seen: Mapping[str, Hints | None]) -> str:
    rows = [f"{'pod':<12} {'expected':<40} written"]
    rows += [f"{pod:<12} {_cell(wanted, pod):<40} {_cell(seen, pod)}" for pod in sorted({*wanted, *seen})]
    return "hints of the Service's endpoints\n" + "\n".join(rows)


def _cell(table: Mapping[str, Hints | None], pod: str) -> str:
    if pod not in table:
        return "not an endpoint"
    hints = table[pod]
    if hints is None:
        return "no hints"
    return " ".join(
        f"{name}={','.join(values)}" for name, values in (("zones", hints.zones), ("nodes", hints.nodes)) if values
    )
