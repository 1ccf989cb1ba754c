"""Check whether a Service requests topology, which pods it selects, and whether its policies allow hints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from explain.case import PROXY_NAME, Case, condition, first_name
from explain.causes import AS_ASKED, Finding, causes, found, listed, many
from explain.components import API_SERVER, CONTROLLER
from explain.routes import Route, nodes_of
from harness.api.client import Object
from reference.endpointslice.hints import NoHints, topology_annotation
from reference.endpointslice.labels import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE
from reference.objects.endpoints import is_ready, name_of


def ended(case: Case) -> Finding:
    match case.ends:
        case "external-name":
            target = case.spec.get("externalName", "?")
            says = f"the Service is ExternalName: DNS sends its clients to {target}, and no proxy is involved"
            routed = '{"spec":{"type":"ClusterIP","externalName":null,"selector":{"KEY":"VALUE"}}}'
            return found("external-name", says, remedy=case.kubectl(f"patch -p '{routed}'"))
        case "headless":
            says = "the Service is headless: clients choose among its endpoints, and no proxy is involved"
            again = "jq 'del(.spec.clusterIP, .spec.clusterIPs)' | kubectl replace --force -f -"
            return found("headless", says, remedy=f"{case.kubectl('get -o json')} | {again}")
        case _:
            label = case.service["metadata"]["labels"][PROXY_NAME]
            says = f"label {PROXY_NAME} assigns the Service to proxy {label!r}: kube-proxy ignores it"
            return found("other-proxy", says, remedy=case.kubectl(f"label {PROXY_NAME}-"))


def words(case: Case) -> Iterator[Finding]:
    """Yield the mistakes in the Service's request."""
    annotations = case.service["metadata"].get("annotations") or {}
    key, value = topology_annotation(case.service, case.cluster.features)
    field = case.spec.get("trafficDistribution")
    if key == TOPOLOGY_AWARE_HINTS and TOPOLOGY_MODE in annotations and annotations[TOPOLOGY_MODE] != value:
        says = f"annotation {key} is {value!r} and overrides {TOPOLOGY_MODE}, which is {annotations[TOPOLOGY_MODE]!r}"
        yield found("annotation-hidden", says, remedy=case.kubectl(f"annotate {key}-"))
    if value in {"Auto", "auto"} and field is not None:
        says = f"annotation {key} is {value}, and overrides trafficDistribution {field}"
        yield found("annotation-overrides-field", says, remedy=case.kubectl(f"annotate {key}-"))
    elif value not in {None, "Auto", "auto", "Disabled", "disabled"}:
        decides = f"trafficDistribution {field} decides" if field else "nothing else decides"
        says = f"annotation {key} is {value!r}, which is not valid (valid: Auto, auto); {decides}"
        yield found("annotation-unknown", says, remedy=case.kubectl(f"annotate {key}=Auto --overwrite"))
    if isinstance(case.decided_by, NoHints) and (value in {"Auto", "auto"} or case.decided_by.unknown):
        yield _not_known(case, case.decided_by)


def _not_known(case: Case, decided_by: NoHints) -> Finding:
    """Return the reason why the controller does not support the request: a disabled gate or an old release."""
    features, field = case.cluster.features, case.spec.get("trafficDistribution")
    gate = next((name for name in features.gates if not features.gates[name]), "")
    if gate:
        said = f"feature gate {gate} is off in {CONTROLLER}, as its metrics show"
        return found("gate-off", said, evidence=(decided_by.reason,), remedy=_switch_on(gate, CONTROLLER))
    if not decided_by.unknown:
        return found("gate-off", decided_by.reason, remedy=_newer(24, "TopologyAwareHints"))
    newer = _newer(31, "ServiceTrafficDistribution")
    if field in {"PreferSameZone", "PreferSameNode"}:
        newer = _newer(34, "PreferSameTrafficDistribution")
    remedy = case.set_field("PreferClose") if features.enabled("ServiceTrafficDistribution") else newer
    return found("value-unknown-to-the-controller", decided_by.reason, remedy=remedy)


def _newer(minor: int, gate: str) -> str:
    return f"use Kubernetes 1.{minor} or newer, or {_switch_on(gate, CONTROLLER)}"


def _switch_on(gate: str, component: str) -> str:
    return f"start {component} with --feature-gates={gate}=true"


def asks_nothing(case: Case) -> Iterator[Finding]:
    gate = case.cluster.gate_off(API_SERVER, "ServiceTrafficDistribution")
    if gate and case.spec.get("trafficDistribution") is None:
        evidence = (f"feature gate {gate} is off in {API_SERVER}, as its metrics show: it drops trafficDistribution",)
        remedy = f"{_switch_on(gate, API_SERVER)}; then {case.set_field('PreferClose')}"
        yield found("asks-for-nothing", case.decided_by.reason, evidence=evidence, remedy=remedy)
    else:
        yield found("asks-for-nothing", case.decided_by.reason, remedy=case.set_field())


# Pods that the Service selects


def nobody(case: Case) -> Finding | None:
    """Return the reason why no endpoint accepts connections, or None if an endpoint does."""
    endpoints = [each for one in case.slices for each in one.get("endpoints") or ()]
    if any(map(is_ready, endpoints)):
        return None
    if endpoints:
        return _not_ready(case, endpoints)
    selector = case.spec.get("selector")
    if not selector:
        says = "the Service has neither a selector nor an EndpointSlice with endpoints"
        remedy = case.kubectl('patch -p \'{"spec":{"selector":{"KEY":"VALUE"}}}\'')
        return found("no-selector", says, remedy=f"{remedy}, or write EndpointSlices")
    chosen = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    if case.pods == []:
        says = f"no pod in namespace {case.namespace} has the labels of the selector, {chosen}"
        look = f"kubectl -n {case.namespace} get pods --show-labels"
        return found("selector-matches-nobody", says, remedy=f"{look}; then correct spec.selector or the labels")
    pods = (
        "pods may exist, but they could not be read"
        if case.pods is None
        else f"{many(len(case.pods), 'pod', 'matches/match')} {chosen}"
    )
    says = "no EndpointSlice of the Service has an endpoint"
    return found("no-slices", says, evidence=(pods, *case.evidence), remedy=case.log)


def _not_ready(case: Case, endpoints: Sequence[Object]) -> Finding:
    serve = [each for each in endpoints if condition(each, "terminating") and condition(each, "serving", default=True)]
    names = listed(sorted({name_of(each) for each in endpoints}))
    if serve:
        says = (
            f"no endpoint is ready, and terminating endpoints that still serve take connections from all zones: {names}"
        )
        return found("terminating-only", says)
    says = f"none of {many(len(endpoints), 'endpoint')} is ready: {names}"
    return found("no-ready-endpoint", says, remedy=case.of_pod("describe", first_name(endpoints)))


# Policies


def policies(case: Case, by_proxies: Sequence[Route]) -> Iterator[Finding]:
    if case.spec.get("internalTrafficPolicy") == "Local":
        failing = nodes_of(by_proxies, lambda each: each.fails)
        says = "internalTrafficPolicy is Local: connections stay on the node, and hints have no effect"
        lost = f"; they are dropped on {many(len(failing), 'node')} without an endpoint" if failing else ""
        cause = causes()["internal-policy-local"]
        remedy = case.kubectl(
            'patch -p \'{"spec":{"internalTrafficPolicy":"Cluster","trafficDistribution":"PreferSameNode"}}\''
        )
        weighed = cause if failing else replace(cause, weight=AS_ASKED)
        yield Finding(weighed, says + lost, failing, remedy=remedy if failing else "")
    if case.spec.get("type") in {"NodePort", "LoadBalancer"} or case.spec.get("externalIPs"):
        if case.spec.get("externalTrafficPolicy") == "Local":
            says = "externalTrafficPolicy is Local: external clients get endpoints on the node where they enter"
            yield found("external-policy-local", says)
        elif not isinstance(case.decided_by, NoHints):
            says = "external clients get the endpoints of the zone where they enter; their own zone is unknown"
            yield found("external-clients", says)
