"""Check whether a Service requests topology, which pods it selects, and whether its policies allow hints."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from explain.case import PROXY_NAME, Case, ServicePorts, condition, distinct, has_port, port_name
from explain.causes import AS_ASKED, CROSSES, FAILS, NOTE, Effect, Finding, found, listed, many
from explain.components import API_SERVER, CONTROLLER
from explain.hint_patches import add_ports, give_family, give_hints
from explain.objects import offers, ports_of
from explain.placement import admit
from explain.proxy_bypass import to_pods
from explain.requested_topology import AUTO, OFF, asked_in_words, read_wish, unread_requests
from explain.routes import Route, about, is_far, is_old, nodes_of
from harness.api.client import Object
from harness.netns.addresses import by_family, family_of
from reference.endpointslice.hints import NoHints
from reference.endpointslice.labels import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE, is_managed
from reference.features import GATES, Features
from reference.objects.endpoints import is_ready, name_of
from reference.proxy.objects import topology_keys


def decides(case: Case, *, balanced: bool) -> str:
    """Return as text what decides where connections go. `balanced` is true if a load balancer sends traffic to pods."""
    asked, field = case.decided_by.reason, case.spec.get("trafficDistribution")
    asked += f"; it overrides trafficDistribution {field}" if case.annotated and field else ""
    if case.ends:
        return {"headless": "the clients, by DNS", "external-name": "DNS"}.get(case.ends, "another proxy")
    if case.wish == "keys":
        asked = "spec.topologyKeys"
    elif case.by_hand:
        asked = "the hints in the EndpointSlices, by their writer: the Service has no selector, and so no controller"
    elif case.wish not in {"", "local"} and not (field or case.annotated):
        words = asked_in_words(case.service, case.cluster.features, case.wish)
        asked = f"nothing: the Service asks for {words}, which no component reads"
    return _by_policy(case, "{} is Local", asked, "the load balancer" if balanced else "")


def _by_policy(case: Case, local: str, other: str, balanced: str) -> str:
    policies = ("internalTrafficPolicy", "externalTrafficPolicy")
    inside, outside = (local.format(each) if case.spec.get(each) == "Local" else other for each in policies)
    outside = balanced or outside
    return inside if inside == outside or not case.is_external else f"{inside}; for external clients, {outside}"


def ended(case: Case) -> Finding:
    """Return a finding with the reason why kube-proxy does not route the Service."""
    ports = {} if case.spec.get("ports") else {"ports": [{"port": 80}]}
    routed = {"type": "ClusterIP", "externalName": None, "selector": {"KEY": "VALUE"}, **ports}
    proxy = (case.service["metadata"].get("labels") or {}).get(PROXY_NAME)
    values = {"target": case.spec.get("externalName", "?"), "patch": case.patch(routed), "again": case.again({})}
    return found(case.ends, proxy=repr(proxy), remove=case.kubectl(f"label {PROXY_NAME}-"), **values)


def words(case: Case) -> Iterator[Finding]:
    annotations = case.service["metadata"].get("annotations") or {}
    (key, value), field = case.annotation, case.spec.get("trafficDistribution")
    remove = case.unannotate
    if value not in {*OFF, *AUTO}:
        decides = f"trafficDistribution {field} decides" if field else "nothing else decides"
        decides = "the hints in the EndpointSlices decide" if case.by_hand else decides
        decides = "internalTrafficPolicy Local decides" if case.wish == "local" else decides
        inert = field or case.by_hand or case.wish == "local"
        remedy = f"nothing, or {remove}" if inert else case.kubectl(f"annotate {key}=Auto --overwrite")
        remedy = "nothing: no controller reads it without a selector" if case.by_hand else remedy
        unknown = found("annotation-unknown", key=key, value=repr(value), decides=decides, remedy=remedy)
        yield unknown.weighing(NOTE) if inert else unknown
    if case.by_hand:
        return  # no controller reads other annotations
    if TOPOLOGY_AWARE_HINTS in annotations and annotations.get(TOPOLOGY_MODE, value) != value:
        hidden = {"value": repr(value), "hidden": repr(annotations[TOPOLOGY_MODE])}
        hides = case.kubectl(f"annotate {TOPOLOGY_MODE}-") if case.annotated else remove  # so that no hints are lost
        known = found("annotation-hidden", **hidden, remove=hides)
        yield known.weighing(NOTE) if read_wish(case.service, case.cluster.features) else known
    if case.annotated and field is not None:
        yield found("annotation-overrides-field", key=key, value=value, field=field, remove=remove)
    if isinstance(case.decided_by, NoHints) and (case.annotated or case.decided_by.unknown):
        yield _not_known(case, case.decided_by)
    unread, features = unread_requests(case.service, case.cluster.features), case.cluster.features
    if unread and not field and not features.enabled("TopologyAwareHints"):
        says = f"feature gate TopologyAwareHints is off in {CONTROLLER} 1.{features.version[1]}: no annotation counts"
        yield found("gate-off", says, remedy=_newer(24, "TopologyAwareHints", features))
    if topology_keys(case.service) and not features.enabled("ServiceTopology"):
        removed = "Kubernetes 1.22 removed it" if features.at_least(22) else "feature gate ServiceTopology is off"
        unheard = found("topology-keys", f"spec.topologyKeys has no effect: {removed}", remedy=case.ask())
        yield unheard.weighing(NOTE if read_wish(case.service, features) else CROSSES)


def _not_known(case: Case, decided_by: NoHints) -> Finding:
    features, field = case.cluster.features, case.spec.get("trafficDistribution")
    gate = next((name for name in features.gates if not features.gates[name]), "")
    if gate:
        said = f"feature gate {gate} is off in {CONTROLLER}, as its metrics or settings show"
        return found("gate-off", said, evidence=(decided_by.reason,), remedy=_switch_on(gate, CONTROLLER))
    if not decided_by.unknown:
        return found("gate-off", decided_by.reason, remedy=_newer(24, "TopologyAwareHints", features))
    newer = _newer(31, "ServiceTrafficDistribution", features)
    if field in {"PreferSameZone", "PreferSameNode"}:
        newer = _newer(34, "PreferSameTrafficDistribution", features)
    remedy = case.ask() if features.enabled("ServiceTrafficDistribution") else newer
    if field == "PreferSameNode" and remedy != newer:  # no older value means the same
        remedy = f"{newer}; or {remedy}"
    seen = case.cluster.controller_image or case.cluster.objects.version
    says = decided_by.reason if seen else f"{decided_by.reason}, if it is of the release of {case.cluster.known_by}"
    return found("value-unknown-to-the-controller", says, remedy=remedy)


def _newer(minor: int, gate: str, features: Features) -> str:
    known = features.at_least(GATES[gate].introduced)  # older releases reject the gate
    return f"use Kubernetes 1.{minor} or newer{f', or {_switch_on(gate, CONTROLLER)}' * known}"


def _switch_on(gate: str, component: str) -> str:
    return f"start {component} with --feature-gates={gate}=true"


def asks_nothing(case: Case, by_proxies: Sequence[Route]) -> Finding:
    others = [each for each in case.cluster.others if each.reads == "none" or not each.knows("PreferClose")]
    deaf = [f"{each.name} {each.does}" for each in others]
    ready = [(each, one) for each, one in case.endpoints if is_ready(each)]
    given = give_hints(case, ready) if case.by_hand and ready else ""
    remedy = "; ".join(filter(None, [case.ask(), given]))
    remedy = "nothing, while the service proxies follow no hints" if case.cluster.is_deaf else remedy
    says, crossing = case.decided_by.reason, [each for each in by_proxies if each.crossing]
    if crossing and all(map(is_far, crossing)) and "nodes" not in case.cluster.objects.unread:
        says, remedy = f"{says}; a request alone would change nothing", f"if each zone gets a ready endpoint, {remedy}"
    gate = case.cluster.gate_off(API_SERVER, "ServiceTrafficDistribution")
    if gate and case.spec.get("trafficDistribution") is None:
        off = f"feature gate {gate} is off in {API_SERVER}, as its metrics or settings show"
        deaf = [f"{off}: it drops trafficDistribution"]
        remedy = f"{_switch_on(gate, API_SERVER)}; then {case.ask('PreferClose')}"
    return found("asks-for-nothing", says, evidence=deaf, remedy=given if case.is_of_server else remedy)


def keys(case: Case, by_proxies: Sequence[Route]) -> Iterator[Finding]:
    """Yield findings about topology keys, which are strict: connections fail if no endpoint matches."""
    named, failing = ", ".join(topology_keys(case.service)), nodes_of(by_proxies, lambda each: each.fails)
    says = f"spec.topologyKeys applies, and hints have no effect: {named}"
    yield found("topology-keys", says)
    if failing:
        unmatched = found("topology-keys", f"no endpoint matches spec.topologyKeys: {named}", nodes=failing)
        yield unmatched.weighing(FAILS)


def nobody(case: Case) -> Finding | None:
    """Return a finding with the reason why the Service has no endpoint, or None if it has one."""
    if any(one.get("endpoints") for one in case.slices):
        return None
    selector = case.spec.get("selector")
    if not selector:
        return found("no-selector", patch=case.patch({"selector": {"KEY": "VALUE"}}))
    chosen = case.selector
    if case.pods == []:
        return found("selector-matches-nobody", namespace=case.namespace, selector=chosen)
    statuses = [each.get("status") or {} for each in case.pods or ()]
    of_pods = sorted({family_of(one["ip"]) for each in statuses for one in each.get("podIPs") or ()})
    of_service = [family_of(each) for each in case.spec.get("clusterIPs") or ()]
    if of_pods and of_service and not {*of_pods} & {*of_service}:
        return _lacking_family(case, of_service[0], of_pods, f"the pods have addresses of family {listed(of_pods)}")
    pods = f"{many(len(statuses), 'pod', 'matches/match')} {chosen}"
    seen = (pods if statuses else "pods may exist, but they could not be read", *case.evidence)
    if not any(map(is_managed, case.slices)):
        there = "its EndpointSlices are empty, and not by the controller" if case.slices else "it has no EndpointSlice"
        return found("no-slices", evidence=seen, remedy=case.sync, there=there)
    why, remedy = "the controller has not processed the pods", case.sync
    if all(each.get("phase") in {"Pending", "Succeeded", "Failed"} for each in statuses):  # or unread
        why = f"the controller knows no pod with {chosen} that has an address and runs"
        remedy = f"kubectl -n {case.namespace} get pods -l {chosen} -o wide"
    return found("empty-slices", evidence=seen, remedy=remedy, why=why)


def not_ready(case: Case, question: ServicePorts) -> Iterator[Finding]:
    """Yield the reasons why no endpoint of some ports is ready. Terminating endpoints may still work."""
    endpoints = [each for each, _ in question.endpoints]
    serve = [each for each in endpoints if condition(each, "terminating") and condition(each, "serving", default=True)]
    names, count = listed(sorted({name_of(each) for each in endpoints})), len(distinct(endpoints))
    failing = nodes_of(question.routes, lambda each: each.fails)
    if serve and (using := nodes_of(question.routes, lambda each: bool(each.targets))):
        balanced = "as the load balancer decides" if to_pods(case.service) else ""
        values = {"from_where": _by_policy(case, "from their own node", "from all zones", balanced)}
        values["names"] = listed(sorted({*map(name_of, serve)}))
        remedy = "" if case.selects_pods else "let the writer of the EndpointSlices add a ready endpoint"
        yield found("terminating-only", nodes=using if failing else (), remedy=remedy, **values)
    if failing or not serve:
        none = f"none of {many(count, 'endpoint')} is" if count > 1 else "the one endpoint is not"
        yield found("no-ready-endpoint", count=none, names=names, describe=case.describe(endpoints))


def lacking(case: Case, question: ServicePorts) -> Iterator[Finding]:
    """Yield the reasons why no endpoint has some ports of the Service in one IP family."""
    of_family = [one for one in case.slices if one["addressType"] == question.family]
    if not any(one.get("endpoints") for one in of_family):
        others = sorted({one["addressType"] for _, one in case.endpoints})
        lacks = _lacking_family(case, question.family, others, f"there are endpoints in {listed(others)}")
        yield replace(lacks, ports=question.labels)
        return
    for port in question.ports:
        yield replace(_lacking_port(case, port, of_family), ports=(f"{port_name(port)} {question.family}",))


def _lacking_family(case: Case, family: str, others: Sequence[str], there: str) -> Finding:
    addresses = by_family(case.spec.get("clusterIPs") or [case.spec["clusterIP"]])
    values = {"family": family, "there": there, "give": give_family(case, family)}
    spec = {"ipFamilyPolicy": "SingleStack"}
    if family != next(iter(addresses)):
        return found("family-without-endpoints", drop=case.patch(spec), **values)
    kept = next((each for each in others if each in addresses), others[0])
    place = {"clusterIP": addresses[kept], "clusterIPs": [addresses[kept]]} if kept in addresses else {}
    again = case.again({**spec, "ipFamilies": [kept], **place})
    return found("first-family-without-endpoints", again=again, **values)


def _lacking_port(case: Case, port: Object, of_family: Sequence[Object]) -> Finding:
    slices = [one for one in of_family if one.get("endpoints")]
    there = [each for one in slices for each in one.get("ports") or () if each.get("port")]
    names = listed(sorted({f"{each.get('name') or repr('')} {each.get('protocol') or 'TCP'}" for each in there}))
    name, protocol = port.get("name") or "", port.get("protocol") or "TCP"
    target, values = port.get("targetPort"), {"port": port_name(port), "there": names or "none"}
    empty = [one["metadata"]["name"] for one in of_family if has_port(one, port)]
    has = f"{many(empty, 'slice', 'has/have')} it without endpoints, and the others have {values['there']}"
    values["has"] = has if empty else f"the slices have {values['there']}"
    named = isinstance(target, str) and case.selects_pods
    if named and f"{target} {protocol}" not in (held := set().union(*map(ports_of, case.pods or ()))):
        unread = f"no endpoint has port {values['port']}, whose targetPort is the name {target!r}: pods were not read"
        offered = f"; their ports: {listed(sorted(held))}" if held else ""
        look = f"kubectl -n {case.namespace} get pods -o jsonpath='{{..ports}}'"
        values |= {"target": repr(target), "offered": offered, "look": look}
        return found("target-port-of-no-pod", unread if case.pods is None else "", **values)
    if any((each.get("name") or "") == name for each in there) and not empty:
        return found("protocol-without-endpoints", protocol=protocol, **values)
    ours = {each.get("name") or "" for each in case.spec["ports"]}
    if case.selects_pods:
        return found("port-without-endpoints", patch=case.sync, **values)
    renames = {}
    for one in slices if not empty else ():
        for number, each in enumerate(one.get("ports") or ()):
            if (each.get("protocol") or "TCP") == protocol and (each.get("name") or "") not in ours:
                renames[one["metadata"]["name"]] = [{"op": "add", "path": f"/ports/{number}/name", "value": name}]
    if renames:
        patch = "; ".join(case.patch_slice(of_slice, changes) for of_slice, changes in renames.items())
        return found("port-name-differs", patch=patch, **values)
    return found("port-without-endpoints", patch=add_ports(case, [port], slices), **values)


def policies(case: Case, by_proxies: Sequence[Route]) -> Iterator[Finding]:
    if case.spec.get("internalTrafficPolicy") != "Local":
        return
    dropped, patch = _by_nodes(by_proxies), _prefer_node(case)
    for nodes, of_nodes in dropped.items():
        lost = f"; they fail on {many(len(nodes), 'node')} without a usable endpoint"
        run = [admit(case, nodes)] if case.workloads.head.kind == "daemonset" else []
        instead = "; or ".join([*case.mend_on(nodes, of_nodes), *filter(None, run), patch])
        known = found("internal-policy-local", nodes=nodes, lost=lost, patch=instead)
        yield about(replace(known, clients="internal"), of_nodes, by_proxies)
    ignored = any(each.tier not in {"local", "nowhere"} for each in by_proxies)
    nodes = nodes_of(by_proxies, lambda each: each.tier == "local") if ignored else ()
    if not dropped and (nodes or not ignored):
        field, cluster = case.spec.get("trafficDistribution"), case.patch({"internalTrafficPolicy": "Cluster"})
        intended = f"nothing, if the policy is intended; otherwise {patch}"
        hides = field and not case.by_hand
        local = found("internal-policy-local", nodes=nodes, lost="", patch=intended).weighing(AS_ASKED)
        yield found("policy-hides-field", nodes=nodes, field=field, patch=cluster) if hides else local


def _by_nodes(
    routes: Sequence[Route], wanted: Callable[[Route], bool] = lambda each: each.fails and "Local" in each.because
) -> dict[tuple[str, ...], list[Route]]:
    alike: dict[tuple[str, ...], list[Route]] = {}
    for label in dict.fromkeys(each.label for each in routes):
        of_label = [each for each in routes if each.label == label]
        if names := nodes_of(of_label, wanted):
            alike.setdefault(names, []).extend(of_label)
    return alike


def _prefer_node(case: Case) -> str:
    local, (_, annotation) = {"internalTrafficPolicy": "Cluster"}, case.annotation
    value = case.spec.get("trafficDistribution") or annotation
    if not case.selects_pods:
        do = case.patch(local)
    elif not case.cluster.knows("PreferSameNode"):
        known = case.cluster.is_deaf or value == "PreferSameNode" or (value and case.cluster.knows(value))
        asks = {} if known else {"trafficDistribution": "PreferClose"}
        do = case.patch({**local, **asks})
    elif case.cluster.features.enabled("PreferSameTrafficDistribution"):
        remove = f"{case.unannotate}; " if annotation else ""
        do = remove + case.patch({**local, "trafficDistribution": "PreferSameNode"})
    else:
        do = case.patch(local) + ("" if value else f"; {case.ask()}")
    return do + case.switch_on


def external(case: Case, outside: Sequence[Route]) -> Iterator[Finding]:
    """Yield findings about external clients: where their traffic goes, and which nodes drop it with policy `Local`."""
    if case.spec.get("externalTrafficPolicy") != "Local":
        enter = "" if case.spec.get("type") == "LoadBalancer" else "let clients enter at nodes of their own zone"
        limited = nodes_of(outside, lambda each: "internalTrafficPolicy" in each.because)
        cluster = case.cluster
        read = {each for _, each, _ in cluster.alike if case.is_read(cluster.behaviour(each), each)}
        using = [name for name, each in cluster.nodes.items() if each.version in read and name not in limited]
        if using and not isinstance(case.decided_by, NoHints):
            yield found("external-clients", nodes=using if len(using) < len(cluster.nodes) else (), remedy=enter)
        return
    dropped = _by_nodes(outside)
    for lost, of_nodes in dropped.items():
        yield about(_unanswered(case, lost, of_nodes), of_nodes, outside)
    enter = "their load balancer sends them" if case.spec.get("type") == "LoadBalancer" else "they enter"
    excluded = _by_nodes(outside, lambda each: each.tier == "excluded") or {(): [*outside]}
    for names, of_nodes in [] if dropped or not outside else excluded.items():
        checked = f"; its health checks exclude {listed(names)}, without a ready endpoint" * bool(names)
        note = found("external-policy-local", nodes=names, lost=checked, enter=enter)
        yield about(note, of_nodes, outside)


def _unanswered(case: Case, lost: Sequence[str], of_nodes: Sequence[Route]) -> Finding:
    old = any(is_old(version, case.cluster) for _, version, _ in case.cluster.alike)  # internal Local would apply there
    both = old and case.spec.get("internalTrafficPolicy") == "Local"
    patch = case.patch({"externalTrafficPolicy": "Cluster"} | ({"internalTrafficPolicy": "Cluster"} if both else {}))
    run = "run a pod" if case.selects_pods else "let the writer of the EndpointSlices add an endpoint"
    ready = nodes_of(of_nodes, lambda each: bool(each.targets) and "terminating" not in each.because)
    usable = listed(sorted({*ready} - {*lost} - case.cluster.ill))
    chosen = usable and case.spec.get("type") != "LoadBalancer"  # whose clients do not choose their node
    use = [f"let these clients use nodes with a ready endpoint ({usable})"] if chosen else []
    instead = "; or ".join([*case.mend_on(lost, of_nodes), *use, run])
    said = many(lost, "", "has no usable endpoint, and does/have no usable endpoint, and do")
    return found("external-clients-dropped", nodes=lost, patch=patch, instead=instead, lost=said)


def partly(case: Case, of_all: Sequence[Route]) -> Iterator[Finding]:
    """Yield findings about named target ports that ready pods lack, although a slice or another ready pod has them."""
    for number, port in enumerate(case.spec.get("ports") or ()):
        lack = [each for each in case.ready_pods if not offers(each, port)]
        there = any(one.get("endpoints") and has_port(one, port) for one in case.slices)
        if lack and (there or len(lack) < len(case.ready_pods)):
            yield from _unnamed(case, number, lack, [each for each in of_all if each.port == port_name(port)])


def _unnamed(case: Case, number: int, lack: Sequence[Object], of_port: Sequence[Route]) -> Iterator[Finding]:
    port = case.spec["ports"][number]
    on = {str(each["spec"].get("nodeName")) for each in lack}
    served = {case.cluster.zone(each) for each, one in case.endpoints if is_ready(each) and has_port(one, port)} - {""}
    places = {name: each.zone for name, each in case.cluster.nodes.items() if each.zone not in served}
    zones = {places[each] for each in on if each in places} - {""}
    near = {name for name, zone in places.items() if zone in zones or (name in on and not zone)}
    lost = defaultdict[Effect, dict[str, set[str]]](dict)  # nodes by label
    for each in (one for one in of_port if one.short):
        by_node = "Local" in each.because or each.short == "misses"
        if names := {*each.nodes} & (on if by_node else set() if each.fails else near):
            lost[FAILS if each.fails else CROSSES].setdefault(each.label, set()).update(names)
    name = port.get("name") or ""
    there = {each["port"] for one in case.slices for each in one.get("ports") or () if (each.get("name") or "") == name}
    at = min(there, default=port["port"])
    change = [{"op": "replace", "path": f"/spec/ports/{number}/targetPort", "value": at}]
    values = {"port": port_name(port), "target": port["targetPort"], "protocol": port.get("protocol") or "TCP"}
    values["pods"] = many(sorted(each["metadata"]["name"] for each in lack), "pod", "has/have")
    values["template"] = case.workloads.in_template(sorted({case.workloads.owner(each) for each in lack}))
    values["patch"] = case.kubectl(f"patch --type=json -p '{json.dumps(change, separators=(',', ':'))}'")
    for weight, of_labels in (lost or {NOTE: {each.label: set() for each in of_port}}).items():
        nodes, so = (
            sorted(set().union(*of_labels.values())),
            {FAILS: ": connections fail", CROSSES: ": connections go elsewhere"},
        )
        known = found("target-port-of-some-pods", nodes=nodes, number=at, so=so.get(weight, ""), **values)
        yield replace(known.weighing(weight), ports=tuple(of_labels))
