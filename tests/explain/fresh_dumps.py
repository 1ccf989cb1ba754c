"""Dumps of clusters that nobody has looked at, and what contradicts itself in the answers about them.

What a node does is computed here once more, from the objects alone, by rules that are written by hand: which endpoints
exist for a port and a family, in which zone they are, and what the Service asks for. Only which of these endpoints a
proxy chooses is taken from the answer.
"""

from __future__ import annotations

import copy
import ipaddress
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from click.testing import CliRunner, Result

from explain.objects import Objects
from harness.api.client import Object
from harness.commands.main import main
from tests.explain.cluster_builders import ZONE
from tests.explain.dump_formats import SHAPES
from tests.explain.generated_clusters import WAYPOINT, fresh, sends_to_pods
from tests.explain.headlines import has_ports_and_nodes
from tests.explain.service_answer import is_ready

_MODES = ("service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints")
_OFF = (None, "", "Disabled", "disabled")
_FAIL_ON = ("crossing", "failing", "never")


def fresh_dump(of_seed: int) -> Objects:
    """Return a cluster with one to four Services of new lifecycles. Equal seeds give equal clusters."""
    drawn = random.Random(of_seed)
    known = [*fresh(of_seed=of_seed)]
    chosen = drawn.sample(known, min(len(known), drawn.randint(1, 4)))
    first = chosen[0]
    services, slices = [], []
    for number, each in enumerate(chosen):
        service = copy.deepcopy(each.services[0])
        service["metadata"]["name"] = f"web-{number}"
        services.append(service)
        for one in copy.deepcopy([*each.endpointslices]):
            one["metadata"]["name"] = f"of-{number}-{one['metadata']['name']}"
            one["metadata"]["labels"]["kubernetes.io/service-name"] = f"web-{number}"
            slices.append(one)
    nodes = copy.deepcopy([*first.nodes])
    for each in nodes:  # only recordings may have the version of the API server, so it is left out
        each["status"]["nodeInfo"]["kubeletVersion"] = first.version
    return replace(first, version="", services=services, endpointslices=slices, nodes=nodes)


def in_doubt(seen: Objects) -> set[str]:
    """Return the nodes without a ready proxy, if there is a proxy on some node."""
    ready = [each for each in seen.proxies if {"type": "Ready", "status": "True"} in each["status"]["conditions"]]
    served = {each["spec"]["nodeName"] for each in ready}
    return {each["metadata"]["name"] for each in seen.nodes} - served if seen.proxies else set()


def contradictions(seen: Objects, folder: Path, shapes: Sequence[str] = tuple(SHAPES)) -> list[str]:
    """Return what the answers about a cluster say against the objects, one another, or another form of the dump.

    The first of `shapes` is "recording".
    """
    found: list[str] = []
    first: DumpAnswers | None = None
    for name in shapes:
        source = str(SHAPES[name](seen, folder / name))
        answers = _answers(seen, source)
        if first is None:
            first = answers
            found += [f"{each.name}: {wrong}" for each in answers.services for wrong in _wrong(each, answers, seen)]
        found += [f"{name}: {wrong}" for wrong in _differ(first, answers)]
    return found


@dataclass(frozen=True, slots=True)
class ServiceAnswers:
    """The answers about one Service as text and JSON, its row of `--all`, and the exit code for each `--fail-on`."""

    name: str
    text: str
    told: Mapping[str, object]
    row: Mapping[str, object] | None
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DumpAnswers:
    services: tuple[ServiceAnswers, ...]
    overview: Mapping[str, object]
    text: str
    codes: tuple[int, ...]


def _run(source: str, *arguments: str) -> Result:
    text = Path(source).read_text(encoding="utf-8") if source.endswith("documents") else None
    place = "-" if text is not None else source
    return CliRunner().invoke(main, ["explain", *arguments, "--from", place], input=text, env={"COLUMNS": "400"})


def _answers(seen: Objects, source: str) -> DumpAnswers:
    overview = json.loads(_run(source, "--all", "--format", "json").stdout)
    rows = {each["service"]: each for each in overview["services"]}
    whole = source.endswith("recording")  # exit codes and text are derived from the same values for each form
    found = []
    for each in seen.services:
        name = f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        asked = _run(source, name, "--format", "json")
        codes = [_run(source, name, "--fail-on", one).exit_code for one in _FAIL_ON] if whole else [asked.exit_code]
        text = _run(source, name).stdout
        found.append(ServiceAnswers(name, text, json.loads(asked.stdout), rows.get(name), tuple(codes)))
    codes = tuple(_run(source, "--all", "--fail-on", one).exit_code for one in _FAIL_ON) if whole else ()
    return DumpAnswers(tuple(found), overview, _run(source, "--all").stdout, codes)


def _differ(first: DumpAnswers, other: DumpAnswers) -> Iterator[str]:
    """Yield what differs between the answers about two forms of one dump, besides what was not read."""
    for one, two in zip(first.services, other.services, strict=True):
        for key in one.told.keys() | two.told.keys():
            if key != "unread" and one.told.get(key) != two.told.get(key):
                yield f"{one.name}, {key}: {one.told.get(key)} and {two.told.get(key)}"
        if _without_unread(one.text) != _without_unread(two.text):
            yield f"{one.name}: the texts differ"
        if one.row != two.row:
            yield f"{one.name}, --all: {one.row} and {two.row}"
        if one.codes[0] != two.codes[0]:
            yield f"{one.name}: the exit codes differ"
    for key in ("silent", "nodes", "wanting", "failing"):
        if first.overview[key] != other.overview[key]:
            yield f"--all, {key}: {first.overview[key]} and {other.overview[key]}"


def _without_unread(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("  not read")]


# What must be so


def _wrong(answer: ServiceAnswers, answers: DumpAnswers, seen: Objects) -> Iterator[str]:
    service = next(each for each in seen.services if answer.name.endswith(f"/{each['metadata']['name']}"))
    zones = {each["metadata"]["name"]: each["metadata"]["labels"].get(ZONE, "") for each in seen.nodes}
    routes, told = answer.told["routes"], answer.told
    assert isinstance(routes, list)
    slices = [
        each
        for each in seen.endpointslices
        if each["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
    ]
    if wrong := _coverage(service, routes, zones):
        yield wrong
    failing, crossing, unmet = set(), set(), set()
    for each in routes:
        there, used = _endpoints(_as_read(service, each, seen), slices, each, zones), set(each["endpoints"])
        if not used <= there.keys():
            yield f"{each['nodes']} use endpoints that are not there or not ready: {used}"
        hosts, far = (
            _nodes(service, slices, each),
            {one for one in used if not each["zone"] or there.get(one) != each["zone"]},
        )
        by_node = {name: sum(hosts.get(one) != name for one in far) for name in each["nodes"]}
        elsewhere = each["elsewhere"]
        if {*by_node.values()} != {elsewhere}:
            yield f"{each['nodes']}: {elsewhere} elsewhere, but {by_node} of {used}"
        if (each["uses"] in {"nowhere", "excluded"}) != (not used):
            yield f"{each['nodes']} use {each['uses']}: {used}"
        for name in each["nodes"]:
            if zones[name] != each["zone"]:
                yield f"{name} is in zone {zones[name]}, not {each['zone']}"
            fails = not used and not _is_avoided(service, each, slices)
            failing |= {name} if fails else set()
            crossing |= {name} if elsewhere and each["clients"] == "internal" else set()
            on_node = {str(one) for one, node in _nodes(service, slices, each).items() if node == name and one in there}
            external = each["clients"] == "external"
            short = fails if external or not used else _short(service, each, elsewhere, on_node, there.keys())
            unmet |= {name} if short else set()
    asks, doubtful = _wish(service) != "", in_doubt(seen)
    row, says = answer.row, str(told["answer"])
    expected = {"failing": sorted(failing), "crossing": sorted(crossing), "unmet": sorted(unmet)}
    for key, value in expected.items():
        if told[key] != value:
            yield f"{key} is {told[key]}, but by the objects {value}"
    checks = {
        "wanting": told["wanting"] is bool(unmet),
        "exit codes": answer.codes == (int(bool(unmet)), int(bool(failing)), 0),
        "well, and yet short": not (says.startswith("connections stay") and (unmet or crossing)),
        "fails is said if and only if it fails": (" fail on " in says.partition(": ")[0]) == bool(failing),
        "the ports and nodes in the headline": has_ports_and_nodes(says, routes, len(zones) - len(doubtful)),
        "a stored value is known to the cluster that stores it": "value-unknown-to-the-controller" not in answer.text,
        "nothing is promised beside a waypoint": WAYPOINT not in service["metadata"]["labels"]
        or not says.startswith("connections stay")
        or service["spec"]["ports"][0]["protocol"] != "TCP",
        "nothing is promised for nodes in doubt": set(told["uncertain"]) == doubtful,  # type: ignore[call-overload]
        "kube-proxy is said to be assumed": "if kube-proxy" not in says or not seen.proxies,
        "text and JSON have one headline": answer.text.splitlines()[0] == f"Service {answer.name}: {says}",
        "the text's causes": _causes(answer.text) == [(each["severity"], each["id"]) for each in told["causes"]],  # type: ignore[attr-defined,index]
        "the text's table": _table(answer.text) == [_cells(each) for each in routes],
        "only Services that ask or fail are in --all": (row is not None) == (asks or bool(failing)),
    }
    if row is not None:
        line = (row["says"], row["missed"], row["wanting"], row["failing"])
        checks["the row of --all"] = line == (says, len(unmet), bool(unmet), bool(failing))
        checks["the text of --all"] = answer.name in answers.text
    yield from (f"{name}: {says}" for name, holds in checks.items() if not holds)
    rows = [each.row for each in answers.services if each.row]
    wanting, failed = (sum(bool(each[key]) for each in rows) for key in ("wanting", "failing"))
    if answers.codes != (int(bool(wanting)), int(bool(failed)), 0):
        yield f"--all ends with {answers.codes}, but {wanting} Services do not get what they ask for"
    counts = (answers.overview["wanting"], answers.overview["silent"])
    silent = [each for each in seen.services if not _wish(each)]
    if counts != (wanting, len(silent)):
        yield f"--all counts {counts}"


def _as_read(service: Object, route: Mapping[str, object], seen: Objects) -> Object:
    """Return a Service as the proxy of a node reads it: before 1.24, one policy Local hides the other one."""
    spec, nodes = service["spec"], route["nodes"]
    assert isinstance(nodes, list)
    images = {each["spec"]["nodeName"]: each["spec"]["containers"][0]["image"] for each in seen.proxies}
    kubelets = {each["metadata"]["name"]: each["status"]["nodeInfo"]["kubeletVersion"] for each in seen.nodes}
    policies = {each: spec.get(each, "Cluster") for each in ("internalTrafficPolicy", "externalTrafficPolicy")}
    if "v1.22" in images.get(nodes[0], kubelets[nodes[0]]) and spec["type"] != "ClusterIP":
        if policies["externalTrafficPolicy"] == "Local":
            policies["internalTrafficPolicy"] = "Cluster"
        else:
            policies["externalTrafficPolicy"] = policies["internalTrafficPolicy"]
    return {**service, "spec": {**spec, **policies}}


def has_external_routes(service: Object) -> bool:
    """Return whether clients outside the cluster are treated otherwise than those inside, because of a policy Local."""
    spec = service["spec"]
    local = "Local" in {spec.get("internalTrafficPolicy"), spec.get("externalTrafficPolicy")}
    return spec["type"] != "ClusterIP" and local and not sends_to_pods(service)


def _coverage(service: Object, routes: Sequence[Mapping[str, object]], zones: Mapping[str, str]) -> str:
    spec = service["spec"]
    wanted = sorted(
        (name, f"{port.get('name') or port['port']}/{port['protocol']}", family, clients)
        for name in zones
        for clients in (["internal", "external"] if has_external_routes(service) else ["internal"])
        for port in spec["ports"]
        for family in spec["ipFamilies"]
    )
    there = sorted((name, each["port"], each["family"], each["clients"]) for each in routes for name in each["nodes"])  # type: ignore[attr-defined]
    return "" if there == wanted else f"the routes are not one for each node, port and family: {there}"


def _of_route(service: Object, slices: Sequence[Object], route: Mapping[str, object]) -> Iterator[Object]:
    """Yield the endpoints for the port and family of a route, as the API describes them."""
    name, _, protocol = str(route["port"]).partition("/")
    port = next(each for each in service["spec"]["ports"] if name in {each.get("name"), str(each["port"])})
    for one in slices:
        named = [
            each for each in one["ports"] if (each["name"], each["protocol"]) == (port.get("name") or "", protocol)
        ]
        if one["addressType"] == route["family"] and named:
            yield from one["endpoints"]


def _endpoints(
    service: Object, slices: Sequence[Object], route: Mapping[str, object], zones: Mapping[str, str]
) -> dict[str, str]:
    """Return the zones of the endpoints that a node may use, by address. The label of a node precedes the slice.

    These are the ready endpoints. If none is ready, on the node itself for internalTrafficPolicy Local, they are the
    terminating endpoints that still serve.
    """
    ready: dict[str, str] = {}
    serving: dict[str, str] = {}
    local = service["spec"].get(f"{route['clients']}TrafficPolicy") == "Local"
    for each in _of_route(service, slices, route):
        conditions, zone = each["conditions"], zones.get(each.get("nodeName", "")) or each.get("zone", "")
        if local and [each["nodeName"]] != route["nodes"]:
            continue
        address = str(ipaddress.ip_address(each["addresses"][0]))
        if conditions.get("ready", True):
            ready[address] = zone
        elif conditions.get("terminating") and conditions.get("serving", conditions.get("ready", True)):
            serving[address] = zone
    return ready or serving


def _is_avoided(service: Object, route: Mapping[str, object], slices: Sequence[Object]) -> bool:
    """Return whether the health check of a load balancer, for all ports of a family, avoids the nodes of a route."""
    spec = service["spec"]
    checked = spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
    if route["clients"] != "external" or not checked:
        return False
    ports = [f"{each['name']}/{each['protocol']}" for each in service["spec"]["ports"]]
    nodes = {
        each["nodeName"]
        for port in ports
        for each in _of_route(service, slices, {**route, "port": port})
        if is_ready(each)
    }
    return bool(nodes) and not nodes & {*route["nodes"]}  # type: ignore[misc]


def _nodes(service: Object, slices: Sequence[Object], route: Mapping[str, object]) -> dict[str, str]:
    """Return the nodes of endpoints by address."""
    return {each["addresses"][0]: each["nodeName"] for each in _of_route(service, slices, route)}


def _wish(service: Object) -> str:
    spec, annotations = service["spec"], service["metadata"].get("annotations") or {}
    annotation = next((annotations[key] for key in _MODES if annotations.get(key)), None)
    if spec.get("internalTrafficPolicy") == "Local":
        return "local"
    if annotation in {"Auto", "auto"} and not spec.get("trafficDistribution"):
        return "cpu"
    field = spec.get("trafficDistribution")
    return "node" if field == "PreferSameNode" else "zone" if field or annotation not in _OFF else ""


def _short(
    service: Object, route: Mapping[str, object], elsewhere: int, on_node: set[str], ready: AbstractSet[str]
) -> bool:
    """Return whether a route that does not fail leaves what the Service asks for."""
    uses = route["uses"]
    match _wish(service):
        case "local":
            return uses != "local"
        case "node":  # to reach the own endpoint by chance is not to prefer it
            return bool(elsewhere) or (uses != "node" and bool(on_node) and bool(ready - on_node))
        case "zone":
            return bool(elsewhere)
        case "cpu":  # the controller may move endpoints to another zone by their hints
            return bool(elsewhere) and uses == "anywhere"
    return False


def _causes(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.startswith(("  error ", "  warning ", "  info "))]
    return [(line.split()[0], line.rpartition("[")[2].rstrip("]")) for line in lines]


def _table(text: str) -> list[tuple[str, ...]]:
    lines = text.splitlines()
    begin = next((number for number, line in enumerate(lines) if line.startswith("nodes ")), None)
    if begin is None:
        return []
    starts = [lines[begin].index(each) for each in ("nodes", "zone", "port", "uses", "endpoints", "elsewhere")]
    ends = [*starts[1:], lines[begin].index("because")]
    return [tuple(line[a:b].strip() for a, b in zip(starts, ends, strict=True)) for line in lines[begin + 1 :] if line]


def _cells(route: Mapping[str, object]) -> tuple[str, ...]:
    nodes, endpoints = route["nodes"], route["endpoints"]
    assert isinstance(nodes, list)
    assert isinstance(endpoints, list)
    label = f"{route['port']} {route['family']}" + (" external" if route["clients"] == "external" else "")
    return (
        " ".join(nodes), str(route["zone"] or "(none)"), label, str(route["uses"]), str(len(endpoints)),
        str(route["elsewhere"]),
    )  # fmt: skip
