"""Expectations about the EndpointSlices that a controller writes. Endpoints and hints are compared as tables."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from harness.api.client import path_of
from harness.errors import InconclusiveError
from harness.model import manifests
from harness.model.abilities import Ability
from harness.model.manifests import Endpoint, Hints, Object
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import limit, value_after_wait, wait_for_stable_value
from harness.scenario.service import Service
from harness.scenario.service_address import first_family

V = TypeVar("V")

LINK_LOCAL = {"IPv4": "169.254.1.9", "IPv6": "fe80::9"}
"""Addresses that a pod may report, but an EndpointSlice must not contain (discovery/v1 validation)."""


@dataclass(frozen=True, slots=True)
class WrittenEndpoint:
    """An endpoint that a controller wrote, and the slices that contain it. Omitted conditions are `None`."""

    pod: str
    ready: bool | None
    serving: bool | None
    terminating: bool | None
    zone: str | None
    node: str | None
    hints: Hints | None
    slices: tuple[str, ...]


def written_endpoints(cluster: Cluster, service: Service, family: str = "") -> dict[str, WrittenEndpoint]:
    """Return the endpoints in a Service's slices of an address family, keyed by pod name.

    A pod may be in several slices with different ports. It gets one endpoint if these slices contain the same
    conditions, zone, node and hints, and no common port. Otherwise, there is another key, "POD again, in SLICE".
    """
    family = family or first_family(service)
    found: dict[str, WrittenEndpoint] = {}
    ports: dict[str, set[str]] = {}
    for each in cluster.slices(service):
        mine = {port.get("name") or "" for port in each.get("ports") or ()} or {""}
        for endpoint in (each.get("endpoints") or ()) if each["addressType"] == family else ():
            written = _read(endpoint, each["metadata"]["name"])
            if wrong := cluster.pod_variation.wrong_port(service.object, each, written.pod):
                written = replace(written, pod=f"{written.pod} {wrong}")
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
    cluster: Cluster, service: Service, expected: Mapping[str, Hints | None], *, family: str = "", exactly: bool = False
) -> dict[str, WrittenEndpoint]:
    """Expect exactly these endpoints with these hints. `None` means no hints. Endpoints and hints must be stable.

    If `expected` contains no node hints, node hints next to zone hints are ignored unless `exactly` is true, so that a
    scenario about zones does not fail for a controller that also writes node hints. Returns the endpoints.
    Raises `AssertionError` with the expected and the observed table.
    """
    family = family or first_family(service)
    zones_only = not exactly and not any(each.nodes for each in expected.values() if each is not None)

    def look() -> dict[str, WrittenEndpoint]:
        found = written_endpoints(cluster, service, family)
        for pod, each in found.items() if zones_only else ():
            if each.hints is not None and each.hints.zones:
                found[pod] = replace(each, hints=Hints(each.hints.zones))
        return found

    what = f"the {family} endpoints of service {service.name}"
    seen = _wait(cluster, service, what, look, lambda seen: _hints(seen) == dict(expected), shown=_shown)
    cluster.expect_equal(
        f"{family} endpoints and hints of service {service.name} after at most {limit(cluster)}",
        expected=table(expected),
        observed=_shown(seen),
        explanation=_tables(expected, _hints(seen)),
    )
    return seen


def _hints(endpoints: Mapping[str, WrittenEndpoint]) -> dict[str, Hints | None]:
    return {pod: each.hints for pod, each in endpoints.items()}


def expect_hint_counts(
    cluster: Cluster, service: Service, expected: Mapping[str, int], *, family: str = ""
) -> dict[str, set[str]]:
    """Expect every endpoint to have a hint for exactly one zone, with this number of endpoints per zone.

    If a heuristic distributes all endpoints, the KEP defines how many endpoints each zone gets, but not which ones.
    Returns the names of the pods with a hint for each zone. Raises `AssertionError` with the counts.
    """
    family = family or first_family(service)
    pods = _hinted(cluster, service, family, lambda pods: _counts(pods) == dict(expected))
    cluster.expect_equal(
        f"{family} endpoints of service {service.name} by the zone of their hints",
        expected=dict(sorted(expected.items())),
        observed=_counts(pods),
        explanation="\n".join(f"{zone}: {', '.join(sorted(names))}" for zone, names in sorted(pods.items())),
    )
    return pods


def expect_min_hint_counts(
    cluster: Cluster, service: Service, fewest: Mapping[str, int], *, endpoints: int, family: str = ""
) -> dict[str, set[str]]:
    """Expect `endpoints` endpoints in total, each with a hint for exactly one zone, and at least `fewest` per zone.

    A KEP may leave the exact numbers open: it limits the overload of a zone, and all hints within the limit are
    correct. The report lists the numbers. Returns and raises the same as `expect_hint_counts`.
    """
    family = family or first_family(service)

    def summed_up(pods: Mapping[str, AbstractSet[str]]) -> dict[str, int]:
        counts = {**dict.fromkeys(fewest, 0), **_counts(pods)}
        wrong = {zone: count for zone, count in counts.items() if zone not in fewest or count < fewest[zone]}
        return {"in all": sum(counts.values()), **wrong}

    pods = _hinted(cluster, service, family, lambda pods: summed_up(pods) == {"in all": endpoints})
    counts = _counts(pods)
    cluster.measured(f"{family} endpoints of service {service.name} by the zone of their hints", counts)
    cluster.expect_equal(
        f"{family} endpoints of service {service.name}, and counts of zones with fewer than allowed",
        expected={"in all": endpoints},
        observed=summed_up(pods),
        explanation=f"at least {dict(fewest)} were needed, and there are {counts}",
    )
    return pods


def _counts(pods: Mapping[str, AbstractSet[str]]) -> dict[str, int]:
    return {zone: len(names) for zone, names in sorted(pods.items())}


def _hinted(
    cluster: Cluster, service: Service, family: str, is_right: Callable[[dict[str, set[str]]], bool]
) -> dict[str, set[str]]:
    """Wait for hints. Return pod names keyed by hinted zone, or by "N zones" for pods with no hint or several hints."""

    def look() -> dict[str, set[str]]:
        pods: dict[str, set[str]] = {}
        for pod, each in written_endpoints(cluster, service, family).items():
            zones = each.hints.zones if each.hints is not None else ()
            pods.setdefault(zones[0] if len(zones) == 1 else f"{len(zones)} zones", set()).add(pod)
        return pods

    what = f"the {family} hints of service {service.name}"
    return _wait(cluster, service, what, look, is_right, shown=_counts)


def _wait(
    cluster: Cluster,
    service: Service,
    what: str,
    look: Callable[[], V],
    is_right: Callable[[V], bool],
    *,
    shown: Callable[[V], Any] = str,
) -> V:
    seen = wait_for_stable_value(cluster, what, look, is_right, shown=shown)
    if is_right(seen) and cluster.disturb(service):
        seen = wait_for_stable_value(cluster, what, look, is_right, shown=shown)
    return seen


def expect_conditions(
    cluster: Cluster, service: Service, expected: Mapping[str, tuple[bool, bool, bool]], *, family: str = ""
) -> None:
    """Expect the endpoint of each pod in `expected` to have these conditions (ready, serving, terminating).

    A missing condition has the API's documented default: ready, not terminating, and either serving (newer API
    documentation) or equal to ready (older). Raises `AssertionError` with the first wrong endpoint.
    """
    family = family or first_family(service)

    def look() -> dict[str, tuple[bool, bool, bool]]:
        seen = {}
        for pod, each in written_endpoints(cluster, service, family).items():
            ready, serving = each.ready is not False, each.serving
            if serving is None:
                serving = ready if pod in expected and expected[pod][1] == ready else True
            seen[pod] = (ready, serving, bool(each.terminating))
        return seen

    seen = _wait(
        cluster,
        service,
        f"the conditions of {family} endpoints of service {service.name}",
        look,
        lambda seen: all(seen.get(pod) == conditions for pod, conditions in expected.items()),
    )
    for pod, conditions in expected.items():
        what = f"ready, serving, terminating of {pod}"
        cluster.expect_equal(what, expected=conditions, observed=seen.get(pod))


@contextlib.contextmanager
def expect_unchanged(cluster: Cluster, *services: Service) -> Iterator[None]:
    """Expect no writes to slices of these Services during the block. Raises `AssertionError`."""
    cluster.settle()
    before = _versions(cluster, services)
    yield
    cluster.settle()
    what = f"resource versions of the slices of {', '.join(each.name for each in services)}"
    after = value_after_wait(what, lambda: _versions(cluster, services), lambda seen: seen == before)
    cluster.expect_equal(what, expected=before, observed=after)


@contextlib.contextmanager
def expect_writes(cluster: Cluster, service: Service, event: str, *, at_most: int | None = None) -> Iterator[None]:
    """Expect the `event` in the block to cause no more than `at_most` writes to slices of the Service.

    A write creates, deletes or changes a slice; the slice's generation counts changes. The report lists the number of
    writes, even if any number is allowed (`None`). Raises `AssertionError`.
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


def create_unwritable_pod(cluster: Cluster, name: str, node: str, *, labels: Mapping[str, str]) -> None:
    """Create a ready API-only pod with an address that the API server rejects in every slice.

    Also create a pod with a valid address. A sync that includes both pods fails. A controller that omits the first pod
    writes a slice with only the second pod. Raises `InconclusiveError` if the API server accepts the address.
    """
    trial = manifests.endpoint_slice(f"{name}-trial", "trial", [Endpoint(LINK_LOCAL)])
    answer = cluster.api.request("POST", path_of("endpointslices", cluster.namespace), trial, query={"dryRun": "All"})
    if answer.code != 422:
        raise InconclusiveError(f"cannot make a sync fail: the API server accepts a slice with {LINK_LOCAL['IPv4']}")
    cluster.backend.need(Ability.REPORT_PODS)
    cluster.create_pod(name, node, labels=labels)
    addresses = {"podIP": LINK_LOCAL["IPv4"], "podIPs": [{"ip": each} for each in LINK_LOCAL.values()]}
    cluster.api.patch("pods", cluster.namespace, name, {"status": addresses}, subresource="status")
    cluster.create_pod(f"{name}-beside", node, labels=labels)


def evidence_of_successful_sync(cluster: Cluster, service: Service) -> str:
    """Return a message about slices that were written although the Service selects an unwritable pod, or ""."""
    names = ", ".join(each["metadata"]["name"] for each in cluster.slices(service))
    return f"no sync failed: slices of service {service.name} were written ({names})" if names else ""


def _metadata(cluster: Cluster, service: Service) -> dict[str, Object]:
    return {each["metadata"]["name"]: each["metadata"] for each in cluster.slices(service)}


def _writes(before: Object, after: Object) -> int:
    if before["resourceVersion"] == after["resourceVersion"]:
        return 0
    return max(1, int(after["generation"]) - int(before["generation"]))


def _versions(cluster: Cluster, services: Sequence[Service]) -> dict[str, str]:
    slices = (each for service in services for each in _metadata(cluster, service).items())
    return {name: metadata["resourceVersion"] for name, metadata in slices}


def _read(endpoint: Object, slice_name: str) -> WrittenEndpoint:
    conditions = endpoint.get("conditions") or {}
    target, hints = endpoint.get("targetRef") or {}, endpoint.get("hints") or {}
    zones, nodes = (tuple(each.get("name") or "" for each in hints.get(key) or ()) for key in ("forZones", "forNodes"))
    return WrittenEndpoint(
        pod=target.get("name") or ",".join(endpoint["addresses"]),
        **{each: conditions.get(each) for each in ("ready", "serving", "terminating")},
        zone=endpoint.get("zone"),
        node=endpoint.get("nodeName"),
        hints=Hints(zones, nodes) if zones or nodes else None,
        slices=(slice_name,),
    )


def _shown(endpoints: Mapping[str, WrittenEndpoint]) -> dict[str, str]:
    return table(_hints(endpoints))


def _tables(wanted: Mapping[str, Hints | None], seen: Mapping[str, Hints | None]) -> str:
    rows = [f"{'pod':<12} {'expected':<40} written"]
    rows += [f"{pod:<12} {_cell(wanted, pod):<40} {_cell(seen, pod)}" for pod in sorted({*wanted, *seen})]
    return "hints of the Service's endpoints\n" + "\n".join(rows)


def table(expected: Mapping[str, Hints | None]) -> dict[str, str]:
    """Convert the hints of endpoints to the form in which the history records them."""
    return {pod: _cell(expected, pod) for pod in sorted(expected)}


def _cell(table: Mapping[str, Hints | None], pod: str) -> str:
    if pod not in table:
        return "not an endpoint"
    hints = table[pod]
    if hints is None:
        return "no hints"
    both = {"zones": hints.zones, "nodes": hints.nodes}
    return " ".join(f"{name}={','.join(values)}" for name, values in both.items() if values)
