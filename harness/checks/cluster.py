"""Check a cluster through its API without changing it. Checks of write access use dry runs."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.api.client import Api, Object, Response, path_of
from harness.checks.check import Check, CheckState, Finding, unknown, unusable
from harness.checks.service_proxies import recognise
from harness.guest import errors, leftovers
from harness.guest.labels import new_run_id, run_labels
from harness.guest.lease import in_use, is_over, read_lease
from harness.guest.preflight import ReachedServer
from harness.model import manifests
from harness.model.abilities import EVERYTHING, Ability
from harness.model.cluster_options import OF_BOTH_FAMILIES
from harness.model.manifests import refusing_taints, takes_pods
from harness.model.metrics import enabled_gates
from harness.model.needs import Needs
from harness.model.release_features import GATES, is_on
from harness.model.topology import THREE_ZONES, ZONE_LABEL, Topology
from harness.netns.addresses import by_family

_DRY_RUN = {"dryRun": "All"}
_KIND = "--backend kind or netns can"
_NETNS = "--backend netns has it"
_PACKETS = "--backend netns has it, as does root on the machine that runs the nodes as containers (docs/kind.md)"

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CheckedServer:
    """An API server that responds. `gates` is the value of option --feature-gates."""

    api: Api
    reached: ReachedServer
    gates: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckedNodes:
    """The nodes of a cluster. `names` maps nodes of the topology to the corresponding nodes of the cluster."""

    server: CheckedServer
    topology: Topology
    nodes: Sequence[Object]
    names: Mapping[str, str]
    offered: frozenset[Ability] = frozenset()


_FEATURES_OF_GATES: Mapping[str, frozenset[str]] = {
    "ServiceTrafficDistribution": frozenset({"PreferClose", "ZoneHints"}),
    "PreferSameTrafficDistribution": frozenset({"PreferSameZone", "PreferSameNode", "NodeHints"}),
}
"""For each feature gate, the features of the suite that need it. Most requirements need one of these features."""


def gate_version(answer: Mapping[str, Any]) -> Version:
    """Return the major and minor version from a response of /version, or (0, 0) if the response contains no version."""
    found = re.match(r"v?(\d+)\.(\d+)", str(answer.get("gitVersion", "")))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def check_gates(version: Version, seen: Mapping[str, bool], given: Mapping[str, bool] | None = None) -> str | Finding:
    """Check that the feature gates of traffic distribution are enabled. `seen` are the gates in the metrics, which omit
    permanent gates. If `seen` is empty, use `given` (option --feature-gates), or else the defaults of the version.
    """
    if version == (0, 0):
        return unknown("its version does not show which gates it has")
    off = [gate for gate in _FEATURES_OF_GATES if not is_on(gate, version[1], seen or given or {})]
    source = f"the defaults of {version[0]}.{version[1]}, because /metrics is not readable"
    if seen or given:
        source = "its metrics" if seen else "--feature-gates"
    if not off:
        return f"the relevant gates are enabled, according to {source}"
    known = all(version[1] >= GATES[gate][0] for gate in off)
    remedy = "enable them in the API server, controller manager and kube-proxy"
    remedy += ("" if known else ", in a version that has them") + ("" if seen else "; if enabled, set --feature-gates")
    features = frozenset[str]().union(*(_FEATURES_OF_GATES[gate] for gate in off))
    found = f"disabled or missing: {', '.join(off)}, according to {source}"
    return Finding(CheckState.LACKS, found, remedy, features=features)


def _feature_gates(server: CheckedServer) -> str | Finding:
    seen = enabled_gates(server.api.text("/metrics"))
    return check_gates(gate_version(server.reached.version), seen, server.gates)


def _permissions(server: CheckedServer) -> str | list[Finding]:
    if not server.reached.denied:
        return f"everything that a run needs, as granted by {errors.MANIFEST}"
    return [
        Finding(CheckState.LACKS, str(each), costs=f"no requirement, but {each.rule.without}")
        if each.rule.without
        else unusable(str(each))
        for each in server.reached.denied
    ]


def _other_runs(server: CheckedServer) -> str | Finding:
    clock = server.reached.clock
    record = read_lease(server.api, clock)
    if record is not None and not is_over(record, clock):
        return unusable(in_use(record, clock))
    found = leftovers.find(server.api)
    if record is None and not found:
        return "none, and no leftovers"
    who = record.described(clock.now()) if record is not None else "an earlier run"
    return unknown(f"{who}, left {found}; the next run removes it", "`trafficdist cleanup` removes it immediately")


_NAME_PROXY = "name it with keys project and version in an options file"


def check_proxy(daemon_sets: Iterable[Object]) -> str | Finding:
    found = []
    for each in daemon_sets:
        name = str(each["metadata"]["name"])
        known = recognise(name)
        if known is not None:
            when = known.when
            containers = each["spec"]["template"]["spec"].get("containers") or [{}]
            details = ", ".join([str(containers[0].get("image", "?")), *([when] if when not in ("", "always") else [])])
            found.append((not when, name, f"{name} ({details})"))
    text = "; ".join(each for _, _, each in sorted(found))
    if any(not other for other, _, _ in found):
        return text
    none = "no DaemonSet of a known proxy" + (f", but {text}" if text else "")
    return unknown(f"{none}; the distribution may have a built-in proxy", _NAME_PROXY)


def _proxy(server: CheckedServer) -> str | Finding:
    answer = server.api.request("GET", "/apis/apps/v1/daemonsets")
    if answer.code >= 400:
        why = "it has no DaemonSets" if answer.code == 404 else errors.of_answer(answer, doing="list DaemonSets")
        return unknown(f"not found: {why}", _NAME_PROXY)
    return check_proxy(answer.body.get("items") or ())


def _admission(server: CheckedServer) -> str | Finding:
    restricted = _try_namespace(server.api, "restricted")
    if restricted.code >= 400:
        return unusable(errors.of_answer(restricted, doing="create a namespace"))
    privileged = _try_namespace(server.api, "privileged")
    if privileged.code >= 400:
        why = errors.of_answer(privileged, doing="create a namespace for pods with host network")
        return Finding(CheckState.LACKS, f"no pods with host network: {why}")
    return "namespaces can be created, even for pods with host network (clients on nodes)"


def _try_namespace(api: Api, standard: str) -> Response:
    labels = {**run_labels(new_run_id()), "pod-security.kubernetes.io/enforce": standard}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"td-{new_run_id()}", "labels": labels}}
    return api.request("POST", path_of("namespaces"), body, query=_DRY_RUN)


def _kubelets(nodes: CheckedNodes) -> str | Finding:
    infos = ((each.get("status") or {}).get("nodeInfo") or {} for each in nodes.nodes if takes_pods(each))
    counts = Counter(str(info["kubeletVersion"]) for info in infos if info.get("kubeletVersion"))
    if not counts:
        return unknown("nodes do not report their version")
    versions = ", ".join(f"{count} x {version}" for version, count in sorted(counts.items()))
    if {gate_version({"gitVersion": each}) for each in counts} == {gate_version(nodes.server.reached.version)}:
        return versions
    remedy = "list the features that an older proxy lacks under exempt-features in an options file"
    return unknown(f"{versions}: they differ from the API server's, and the proxies' versions may differ too", remedy)


def _zones(nodes: CheckedNodes) -> str | Finding:
    topology = nodes.topology
    usable = [each for each in nodes.nodes if takes_pods(each)]
    counts = Counter(manifests.zone_of(each) or "(none)" for each in usable)
    by_zone = ", ".join(f"{zone} {count}" for zone, count in sorted(counts.items()))
    parts = [f"{len(usable)} of {len(nodes.nodes)} nodes accept pods, by zone: {by_zone or 'none'}"]
    parts += [f"{each['metadata']['name']} {_why_not(each)}" for each in nodes.nodes if not takes_pods(each)]
    if len(nodes.names) < 2:  # topology has no effect in a single zone
        return unusable("; ".join(parts), f"at least two zones must have nodes that accept pods (label {ZONE_LABEL})")
    if not set(THREE_ZONES.nodes) <= set(topology.nodes):  # scenarios need these nodes, whatever --topology is
        parts.append(f"only {len(topology.nodes)} are requested")
        topology = THREE_ZONES
    missing = [node.name for node in topology.nodes if node.name not in nodes.names]
    if not missing:
        differ = any(ours != theirs for ours, theirs in nodes.names.items())
        parts += [", ".join(f"{ours} is {theirs}" for ours, theirs in nodes.names.items())] if differ else []
        return "; ".join(parts)
    parts.append(f"no node for {', '.join(missing)}")
    wanted = " and ".join(str(len([node for node in topology.nodes if node.zone == zone])) for zone in topology.zones)
    remedy = f"{len(topology.zones)} zones (label {ZONE_LABEL}) with {wanted} nodes provide all"
    return Finding(CheckState.LACKS, "; ".join(parts), remedy, lacks=Needs(nodes=frozenset(missing)))


def _why_not(node: Object) -> str:
    if errors.of_node(str(node["metadata"]["name"]), node):
        return "is not ready"
    cordoned = (node.get("spec") or {}).get("unschedulable")
    return "is cordoned" if cordoned else f"has taint {', '.join(refusing_taints(node))}"


def _families(nodes: CheckedNodes) -> str | Finding:
    wanted = manifests.service("trafficdist-doctor", ipFamilyPolicy="PreferDualStack")
    answer = nodes.server.api.request("POST", path_of("services", "default"), wanted, query=_DRY_RUN)
    if answer.code >= 400:
        return unknown(errors.of_answer(answer, doing="check the families of a new Service"))
    of_services = sorted((answer.body.get("spec") or {}).get("ipFamilies") or ())
    cidrs = {cidr for each in nodes.nodes for cidr in (each.get("spec") or {}).get("podCIDRs") or ()}
    of_pods = sorted(by_family(cidrs))
    found = f"Services get {' and '.join(of_services)}"
    found += f", pods {' and '.join(of_pods)}" if of_pods else "; nodes do not report the families of pods"
    if len(of_services) == 2 and len(of_pods) in {0, 2}:
        return found
    return Finding(CheckState.LACKS, found, features=OF_BOTH_FAMILIES)


_ABILITIES: tuple[tuple[str, str, frozenset[Ability]], ...] = (
    ("a run cannot restart or replace its components, or power off nodes", _KIND,
     frozenset({Ability.RESTART_API_SERVER, Ability.RESTART_CONTROLLER, Ability.RESTART_PROXY, Ability.CHANGE_RELEASE,
                Ability.STOP_NODES})),
    ("a run does not change labels and taints of nodes",
     "--allow-disruptive, with role trafficdist-disruptive, changes and restores them",
     frozenset({Ability.CHANGE_NODES})),
    ("a run cannot create nodes, or report nodes and pods instead of kubelets", _NETNS,
     frozenset({Ability.REPORT_NODES, Ability.CREATE_NODES, Ability.EQUAL_NODES, Ability.REPORT_PODS})),
    ("its nodes' kernels send one refusal per second (net.ipv4.icmp_ratemask), so a missing reply may be a refusal",
     "--backend kind or netns lifts the limit", frozenset({Ability.EVERY_REFUSAL})),
    ("a run cannot route addresses to a node", _PACKETS, frozenset({Ability.LOAD_BALANCER, Ability.EXTERNAL_IPS})),
    ("a server has a separate container for each port", _PACKETS, frozenset({Ability.MANY_PORTS})),
    ("servers of a run cannot use the addresses of nodes", _NETNS, frozenset({Ability.HOST_NETWORK})),
    ("other programs depend on the nftables tables of its nodes", _NETNS, frozenset({Ability.OTHER_PROGRAMS})),
    ("its API server does not record reads", _NETNS, frozenset({Ability.API_READS})),
    ("client pods send single requests, and keep no connection or socket open", _PACKETS,
     frozenset({Ability.OPEN_CONNECTIONS, Ability.SOURCE_PORTS, Ability.HTTP})),
    ("the component is not part of the cluster, or is not reachable", _NETNS, EVERYTHING),
)  # fmt: skip
"""Abilities that clusters may lack, grouped by reason and fix. The last group has all remaining abilities."""


def check_abilities(offered: frozenset[Ability]) -> Iterator[str | Finding]:
    missing = EVERYTHING - offered
    if not missing:
        yield "all that scenarios use"
    for why, remedy, group in _ABILITIES:
        if some := missing & group:
            names = ", ".join(sorted(some))
            yield Finding(CheckState.LACKS, f"no {names}: {why}", remedy, lacks=Needs(frozenset(map(str, some))))
            missing -= some


FEATURE_GATES = Check("feature gates", _feature_gates)
FAMILIES = Check("IP families", _families, "a dual-stack cluster has both families")

SERVER: tuple[Check[CheckedServer], ...] = (
    Check("permissions", _permissions, f"let a cluster administrator apply {errors.MANIFEST}"),
    Check("other runs", _other_runs),
    FEATURE_GATES,
    Check("proxy", _proxy),
    Check("admission", _admission,
          costs="requirements with clients on nodes or external clients are inconclusive"),
)  # fmt: skip

NODES: tuple[Check[CheckedNodes], ...] = (
    Check("kubelets", _kubelets),
    Check("zones and nodes", _zones),
    FAMILIES,
    Check("abilities", lambda nodes: check_abilities(nodes.offered)),
)  # fmt: skip
