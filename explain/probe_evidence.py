"""Compare the observations of client pods that connect to a Service with the predicted routes.

This module has no side effects: `explain.clients` sends the probes. One node represents all nodes with the same
prediction. Only servers with the standard test image return their name.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rich.table import Table

from explain.case import port_name
from explain.causes import CROSSES, FAILS, found, listed, many
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis
from explain.routes import Route
from explain.text import fields
from harness.api.client import Object
from harness.errors import UsageError
from harness.model.outcomes import Observation, Reached, Refused, TimedOut
from harness.netns.addresses import Family, by_family, family_of
from reference.objects.endpoints import name_of
from reference.proxy.objects import canonical

MOST_CLIENTS = 24
"""The maximum number of nodes from which a Service is probed."""

CONTROLS = 3
"""The maximum number of pods to which a client connects directly, if the Service does not answer."""

_TEST_IMAGE = "agnhost"

Verdict = Literal["as expected", "otherwise", "connects", "not known"]


@dataclass(frozen=True, slots=True)
class Server:
    """An endpoint: the name of its pod, its zone, and the name that its server returns."""

    name: str
    zone: str
    says: str


@dataclass(frozen=True, slots=True)
class PlannedProbe:
    """A probe from a client pod on a node to an address of the Service, and the endpoints that are expected to answer.

    `targets` are the addresses and ports of at most `CONTROLS` of these endpoints.
    """

    node: str
    zone: str
    family: Family
    address: str
    number: int
    port: str
    expected: tuple[str, ...]
    targets: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """The probes of a Service. `servers` are its endpoints by address. `told` is true if servers return their names.

    `left_out` lists the ports and nodes that are not probed, with the reasons.
    """

    service: Object
    questions: tuple[PlannedProbe, ...]
    servers: Mapping[str, Server]
    told: bool
    left_out: tuple[str, ...]

    @property
    def nodes(self) -> list[str]:
        return list(dict.fromkeys(each.node for each in self.questions))


@dataclass(frozen=True, slots=True)
class ProbeOutcomes:
    """The outcomes of one probe, counted. `Reached` contains the address of an endpoint, or "" if it is unknown.

    `direct` are the outcomes of connections to the endpoints themselves, if the Service did not answer.
    """

    question: PlannedProbe
    outcomes: Mapping[Observation, int]
    direct: Mapping[Observation, int] = field(default_factory=dict)

    @property
    def lost(self) -> bool:
        """True if an endpoint was expected to answer, and some connection got no answer."""
        return bool(self.question.expected) and any(isinstance(each, Refused | TimedOut) for each in self.outcomes)

    @property
    def nobody_listens(self) -> bool:
        """True if the endpoints themselves refuse connections."""
        return bool(self.direct) and all(isinstance(each, Refused) for each in self.direct)

    @property
    def verdict(self) -> Verdict:
        """Return whether the outcomes match the prediction. "connects" means that an unknown server answered."""
        expected = set(self.question.expected)
        reached = {each.pod for each in self.outcomes if isinstance(each, Reached)}
        lost = any(isinstance(each, Refused | TimedOut) for each in self.outcomes)
        if (reached - {""}) - expected or (expected and lost) or (reached and not expected):
            return "otherwise"
        if not reached and not lost:
            return "not known"
        return "connects" if "" in reached else "as expected"


def plan(found_now: Diagnosis, cluster: Cluster, ready: Sequence[str]) -> ProbePlan:
    """Return the probes of a Service from `ready` nodes, which accept pods. Raises `UsageError` if there are no probes.

    Only cluster IPs are probed, and only over TCP, because a UDP probe would send data to the server.
    """
    service = found_now.service
    spec, metadata = service["spec"], service["metadata"]
    addresses = by_family(each for each in spec.get("clusterIPs") or () if each != "None")
    if not addresses or spec.get("type") == "ExternalName":
        kind = "ExternalName" if spec.get("type") == "ExternalName" else "headless"
        said = f"--probe: Service {metadata['namespace']}/{metadata['name']} is {kind} and has no cluster IP"
        raise UsageError(f"{said}; only cluster IPs can be probed")
    numbers = {port_name(each): each["port"] for each in spec["ports"]}
    slices = cluster.slices.get((metadata["namespace"], metadata["name"]), ())
    questions: list[PlannedProbe] = []
    left_out: list[str] = []
    for route in (each for each in found_now.routes if each.clients == "internal"):
        if not route.port.endswith("/TCP"):
            left_out.append(f"port {route.port}: a probe would need more than a connection")
        elif route.family in addresses and (node := _client(route, ready, [each.node for each in questions])):
            address, number, targets = addresses[route.family], numbers[route.port], route.targets[:CONTROLS]
            asked = (node, route.zone, route.family, address, number, route.port, route.endpoints, targets)
            questions.append(PlannedProbe(*asked))
        else:
            accept = "accepts no pods" if len(route.nodes) == 1 else "none of them accepts pods"
            left_out.append(f"{listed(route.nodes)}: {accept}")
    nodes = _of_each_zone(questions)
    left_out += [f"{listed(nodes[MOST_CLIENTS:])}: {MOST_CLIENTS} clients are enough"] if nodes[MOST_CLIENTS:] else []
    kept = tuple(each for each in questions if each.node in nodes[:MOST_CLIENTS])
    if not kept:
        why = "; ".join(left_out) or "no node has rules for the Service"
        raise UsageError(f"--probe: cannot probe Service {metadata['namespace']}/{metadata['name']}: {why}")
    pods = {str(each["metadata"]["name"]): each for each in cluster.pods(service) or ()}
    servers = _servers(slices, pods)
    containers = [pods.get(each.name, {"spec": {}})["spec"].get("containers") for each in servers.values()]
    images = [each and [str(one.get("image", "")).rpartition("/")[2] for one in each] for each in containers]
    told = bool(images) and all(each and all(_TEST_IMAGE in one for one in each) for each in images)
    return ProbePlan(service, kept, servers, told, tuple(dict.fromkeys(left_out)))


def _of_each_zone(questions: Sequence[PlannedProbe]) -> list[str]:
    zones = {each.node: each.zone for each in questions}
    places = [*zones.values()]
    turns = {node: places[:number].count(zone) for number, (node, zone) in enumerate(zones.items())}
    return sorted(zones, key=turns.__getitem__)


def _client(route: Route, ready: Sequence[str], asked: Sequence[str]) -> str:
    usable = [each for each in route.nodes if each in ready]
    return next((each for each in usable if each in asked), usable[0] if usable else "")  # prefers one with a probe


def _servers(slices: Sequence[Object], pods: Mapping[str, Object]) -> dict[str, Server]:
    servers: dict[str, Server] = {}
    for one in slices:
        for each in one.get("endpoints") or ():
            spec = (pods.get(name_of(each)) or {}).get("spec") or {}
            server = Server(name_of(each), str(each.get("zone") or ""), str(spec.get("hostname") or name_of(each)))
            with contextlib.suppress(ValueError):  # no proxy can parse the address
                servers |= dict.fromkeys(map(canonical, each["addresses"]), server)
    return servers


def with_seen(found_now: Diagnosis, plan: ProbePlan, seen: Sequence[ProbeOutcomes], cluster: Cluster) -> Diagnosis:
    """Return the diagnosis after a probe. An outcome that contradicts the prediction becomes the first cause."""
    other = [each for each in seen if each.verdict == "otherwise"]
    if not other:
        if not seen or any(each.verdict != "as expected" for each in seen):
            return found_now
        asked = {each.question.node for each in seen}  # they prove their program, if a program is there
        proven = {cluster.nodes[each].program for each in asked}
        left = [each for each in found_now.uncertain if each not in asked]
        left = [each for each in left if cluster.nodes[each].doubt or cluster.nodes[each].program not in proven]
        return replace(found_now, uncertain=tuple(left), unseen=False)
    nodes = tuple(dict.fromkeys(each.question.node for each in other))
    lost = tuple(dict.fromkeys(each.question.node for each in other if each.lost))
    one = other[0]
    expected = _names(one.question.expected, plan) or "nobody"
    says = f"a client on {one.question.node} should reach {expected}, but got: {_outcomes(one, plan)}"
    late = [each.said for name, each in cluster.late_labels.items() if name in nodes]
    cause = found("proxy-does-otherwise", says, nodes=nodes, evidence=late)
    if all(each.nobody_listens for each in other):
        values = {"node": one.question.node, "expected": expected, "target": str(one.question.targets[0][1])}
        first = plan.servers[one.question.expected[0]].name
        describe = f"kubectl -n {plan.service['metadata']['namespace']} describe pod {first}"
        cause = found("nobody-listens", nodes=nodes, describe=describe, **values)
    weighed = cause.weighing(FAILS if lost else CROSSES)
    findings = tuple(sorted((weighed, *found_now.findings), key=lambda each: each.cause.weight))
    crossing = tuple(each for each in nodes if each not in lost)
    return replace(found_now, findings=findings, seen_crossing=crossing, seen_failing=lost)


def _names(addresses: Sequence[str], plan: ProbePlan) -> str:
    named = [plan.servers[each] for each in addresses if each in plan.servers]
    by_zone = Counter(each.zone or "(none)" for each in named)
    zones = ", ".join(f"zone {zone}" for zone in sorted(by_zone))
    return f"{listed(sorted(each.name for each in named))} ({zones})" if named else ""


def _outcomes(seen: ProbeOutcomes, plan: ProbePlan) -> str:
    by_count = sorted(seen.outcomes.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{_outcome(each, plan)} {count}x" for each, count in by_count)


def _outcome(outcome: Observation, plan: ProbePlan) -> str:
    match outcome:
        case Reached(pod=""):
            return "a connection"
        case Reached(pod=address):
            server = plan.servers.get(address)
            return f"{server.name} of zone {server.zone or '(none)'}" if server else f"no endpoint, but {address!r}"
        case Refused():
            return "refused"
        case TimedOut():
            return "no answer"
    return f"not known ({outcome.why})"


def shown(plan: ProbePlan, seen: Sequence[ProbeOutcomes]) -> Iterator[Any]:
    asked = sum(sum(each.outcomes.values()) for each in seen)
    who = "only whether they could connect, because the servers do not return their names"
    who = "the servers run the standard test image, and return their names" if plan.told else who
    yield f"  probe     {many(asked, 'connection')} from client pods on {many(len(plan.nodes), 'node')}: {who}"
    yield from (f"  not asked {each}" for each in plan.left_out)
    yield ""
    table = Table("client on", "zone", "port", "expected", "seen", "so", box=None, pad_edge=False, header_style="bold")
    for each in seen:
        asked_for, expected = each.question, _names(each.question.expected, plan) or "nobody"
        port = f"{asked_for.port} {asked_for.family}"
        table.add_row(asked_for.node, asked_for.zone or "(none)", port, expected, _outcomes(each, plan), each.verdict)
    yield table


def as_json(plan: ProbePlan, seen: Sequence[ProbeOutcomes]) -> dict[str, Any]:
    rows = [
        fields(each.question, "node zone address port family")
        | {
            "expected": sorted({plan.servers[one].name for one in each.question.expected if one in plan.servers}),
            "seen": {_outcome(one, plan): count for one, count in each.outcomes.items()},
            "verdict": each.verdict,
        }
        for each in seen
    ]
    return {"told": plan.told, "left_out": list(plan.left_out), "rows": rows}


def named(outcome: Observation, family: Family, plan: ProbePlan) -> Observation:
    """Return an outcome with the address of an endpoint instead of its server's name. Mark an unknown name with "?"."""
    if not isinstance(outcome, Reached) or not outcome.pod:
        return outcome
    said = outcome.pod.strip()
    theirs = (address for address, each in plan.servers.items() if each.says == said and family_of(address) == family)
    return Reached(next(theirs, f"{said[:60]}?"))
