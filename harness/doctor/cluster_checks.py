"""The checks of a cluster; they use only the API, and write nothing.

A check that must try something asks the API server for a dry run: it does all of admission and allocation, and stores
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from harness.api.client import Api, Object, Response, path_of
from harness.backends.any_cluster.node_names import Names
from harness.backends.any_cluster.target import refusing_taints, takes_pods
from harness.doctor import gates, installed
from harness.doctor.check import Check, CheckState, ok, unknown, unusable
from harness.errors import UsageError
from harness.guest import errors, leftovers
from harness.guest.labels import new_run_id, run_labels
from harness.guest.lease import in_use, is_over, read_lease
from harness.guest.lease_record import ServerClock, moment
from harness.guest.preflight import ReachedServer
from harness.model import manifests
from harness.model.metrics import enabled_gates
from harness.model.needs import Needs
from harness.model.release import Release
from harness.model.topology import THREE_ZONES, ZONE_LABEL, Topology
from harness.netns.addresses import by_family
from harness.settings.claims import OF_BOTH_FAMILIES

_DRY_RUN = {"dryRun": "All"}
_SKEW_SECONDS = 5
_HEARTBEAT_SECONDS = 40  # a kubelet renews its Lease every 10 s, and counts as lost after 40 s
_NODE_LEASES = "kube-node-lease"
_LOGS = "no requirement, but logs of nodes and of the run cannot be put side by side"
_OF_NODE_CLIENTS = "requirements with clients on nodes themselves, or from outside, end inconclusive"


def server(reached: ReachedServer) -> Check:
    """Check that the API server is of a version that requirements know."""
    from harness.control_planes.embedded import features_of  # noqa: PLC0415  the reference; a run needs none of it

    said = f"{reached.version.get('gitVersion')} at {reached.server}, as {reached.user}"
    try:
        features_of(Release("{}.{}".format(*gates.gate_version(reached.version))))
    except UsageError as error:
        return unknown("API server", f"{said}; {error}", "the nearest version that is known is assumed")
    return ok("API server", said)


def kubelets(reached: ReachedServer, nodes: Sequence[Object]) -> Check:
    """Check that kubelets are of the API server's version. Proxies mostly are of the version of their node."""
    told = ((each.get("status") or {}).get("nodeInfo") or {} for each in nodes if takes_pods(each))
    counts = Counter(str(info["kubeletVersion"]) for info in told if info.get("kubeletVersion"))
    if not counts:
        return unknown("kubelets", "nodes do not tell their version")
    said = ", ".join(f"{count} x {version}" for version, count in sorted(counts.items()))
    if {gates.gate_version({"gitVersion": each}) for each in counts} == {gates.gate_version(reached.version)}:
        return ok("kubelets", said)
    remedy = "--exempt-features names features that an older proxy does not have"
    return unknown("kubelets", f"{said}: not all as the API server, and proxies may not be either", remedy)


def feature_gates(api: Api, reached: ReachedServer, said: Mapping[str, bool] | None = None) -> Check:
    """Check the gates that requirements depend on. `said` are those of an option, used if /metrics cannot be read."""
    return gates.check(gates.gate_version(reached.version), enabled_gates(api.text("/metrics")), said)


def permitted(reached: ReachedServer) -> list[Check]:
    """Return a check for each rule that is not granted."""
    if not reached.denied:
        return [ok("permissions", f"all that a run needs, as {errors.MANIFEST} grants them")]
    remedy = f"let a cluster administrator apply {errors.MANIFEST}"
    return [
        Check("permissions", CheckState.LACKS, str(each), remedy, costs=f"no requirement, but {each.rule.without}")
        if each.rule.without
        else unusable("permissions", str(each), remedy)
        for each in reached.denied
    ]


def zones(topology: Topology, nodes: Sequence[Object], names: Names) -> Check:
    """Check that there is a node for each of the topology. `names` maps one to the other."""
    usable = [each for each in nodes if takes_pods(each)]
    counts = Counter(manifests.zone_of(each) or "(none)" for each in usable)
    by_zone = ", ".join(f"{zone} {count}" for zone, count in sorted(counts.items()))
    parts = [f"{len(usable)} of {len(nodes)} nodes take pods, by zone: {by_zone or 'none'}"]
    parts += [f"{each['metadata']['name']} {why_not(each)}" for each in nodes if not takes_pods(each)]
    if len(names.nodes) < 2:  # nothing would be near or far
        remedy = f"have nodes that take pods, with a zone each (label {ZONE_LABEL})"
        return unusable("zones and nodes", "; ".join(parts), remedy)
    if not set(THREE_ZONES.nodes) <= set(topology.nodes):  # scenarios are written for these, whatever was asked for
        parts.append(f"only {len(topology.nodes)} are asked for")
        topology = THREE_ZONES
    missing = [node.name for node in topology.nodes if node.name not in names.nodes]
    if not missing:
        parts += [] if names.trivial else [", ".join(f"{ours} is {theirs}" for ours, theirs in names.nodes.items())]
        return ok("zones and nodes", "; ".join(parts))
    parts.append(f"nothing stands for {', '.join(missing)}")
    wanted = " and ".join(str(len([node for node in topology.nodes if node.zone == zone])) for zone in topology.zones)
    remedy = f"{len(topology.zones)} zones (label {ZONE_LABEL}) with {wanted} nodes have all"
    return Check("zones and nodes", CheckState.LACKS, "; ".join(parts), remedy, Needs(nodes=frozenset(missing)))


def why_not(node: Object) -> str:
    """Return why a node takes no pods."""
    if errors.of_node(str(node["metadata"]["name"]), node):
        return "is not ready"
    cordoned = (node.get("spec") or {}).get("unschedulable")
    return "is cordoned" if cordoned else f"has taint {', '.join(refusing_taints(node))}"


def families(api: Api, nodes: Sequence[Object]) -> Check:
    """Check the IP families that Services and pods get."""
    wanted = manifests.service("trafficdist-doctor", ipFamilyPolicy="PreferDualStack")
    answer = api.request("POST", path_of("services", "default"), wanted, query=_DRY_RUN)
    if answer.code >= 400:
        return unknown("IP families", errors.of_answer(answer, doing="try what a Service would get"))
    of_services = sorted((answer.body.get("spec") or {}).get("ipFamilies") or ())
    cidrs = {cidr for each in nodes for cidr in (each.get("spec") or {}).get("podCIDRs") or ()}
    of_pods = sorted(by_family(cidrs))
    said = f"Services get {' and '.join(of_services)}"
    said += f", pods {' and '.join(of_pods)}" if of_pods else "; nodes do not say what pods get"
    if len(of_services) == 2 and len(of_pods) in {0, 2}:
        return ok("IP families", said)
    return Check("IP families", CheckState.LACKS, said, "a dual-stack cluster has both", features=OF_BOTH_FAMILIES)


def proxy(api: Api) -> Check:
    """Check which proxy serves Services on the nodes."""
    answer = api.request("GET", "/apis/apps/v1/daemonsets")
    if answer.code >= 400:
        why = "it has no DaemonSets" if answer.code == 404 else errors.of_answer(answer, doing="list DaemonSets")
        return unknown("proxy", f"not seen: {why}", "name it with --project and --version")
    return installed.check(answer.body.get("items") or ())


def clocks(api: Api, clock: ServerClock, nodes: Sequence[str]) -> list[Check]:
    """Check that this machine and these nodes agree with the API server about the time."""
    found = []
    ahead = clock.ahead.total_seconds()
    if abs(ahead) > _SKEW_SECONDS:
        said = f"this machine's clock is {abs(ahead):.0f} s {'behind' if ahead > 0 else 'ahead of'} the API server's"
        found.append(Check("clocks", CheckState.LACKS, said, "set it (NTP)", costs=_LOGS))
    late = {node: seconds for node in sorted(nodes) if (seconds := _lateness(api, clock, node)) is not None}
    for node, seconds in late.items():
        if not -_SKEW_SECONDS < seconds < _HEARTBEAT_SECONDS:
            said = f"node {node} renewed its Lease {abs(seconds):.0f} s {'ago' if seconds > 0 else 'in the future'}"
            remedy = "set its clock (NTP), or see why its kubelet is late"
            found.append(Check("clocks", CheckState.LACKS, said, remedy, costs=_LOGS))
    if found:
        return found
    nodes_too = f"and {len(late)} nodes" if late else "nodes do not tell theirs"
    return [ok("clocks", f"within {_SKEW_SECONDS} s of the API server's: this machine, {nodes_too}")]


def _lateness(api: Api, clock: ServerClock, node: str) -> float | None:
    """Return how many seconds ago a node renewed its Lease, by its own clock; None where it has none."""
    answer = clock.saw(api.request("GET", path_of("leases", _NODE_LEASES, node)))
    renewed = moment((answer.body.get("spec") or {}).get("renewTime")) if answer.code == 200 else None
    return (clock.now() - renewed).total_seconds() if renewed else None


def admission(api: Api) -> Check:
    """Check that namespaces like the suite's are admitted, with the pod security standards that they ask for."""
    labels = run_labels(new_run_id())
    restricted = _try_namespace(api, {**labels, "pod-security.kubernetes.io/enforce": "restricted"})
    if restricted.code >= 400:
        return unusable("admission", errors.of_answer(restricted, doing="create a namespace"))
    privileged = _try_namespace(api, {**labels, "pod-security.kubernetes.io/enforce": "privileged"})
    if privileged.code >= 400:
        why = errors.of_answer(privileged, doing="create a namespace for pods with host network")
        return Check("admission", CheckState.LACKS, f"no pods with host network: {why}", costs=_OF_NODE_CLIENTS)
    return ok("admission", "namespaces may be made, also such as allow pods with host network (clients on nodes)")


def other_runs(api: Api, clock: ServerClock) -> Check:
    """Check that no other run is under way, and that none left anything."""
    record = read_lease(api, clock)
    if record is not None and not is_over(record, clock):
        return unusable("other runs", in_use(record, clock))
    found = leftovers.find(api)
    if record is None and not found:
        return ok("other runs", "none, and nothing is left of any")
    who = record.described(clock.now()) if record is not None else "an earlier run"
    return unknown("other runs", f"{who}, left {found}; the next run removes it", "`trafficdist cleanup` does it now")


def _try_namespace(api: Api, labels: dict[str, str]) -> Response:
    metadata = {"name": f"td-{new_run_id()}", "labels": labels}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    return api.request("POST", path_of("namespaces"), body, query=_DRY_RUN)
