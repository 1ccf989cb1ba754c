"""Components that read a new Service correctly, but ignore changes to a field."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from ipaddress import ip_network
from typing import Any

from mutants.client_wrappers import Sink, controller_hearing, rewriting
from mutants.dropped_updates import ANY, SILENT, controller_receives, proxy_hears, proxy_receives, told
from mutants.mutant import WRITTEN, Mutant
from mutants.wrong_decisions import DecisionInput, deciding
from mutants.wrong_plans import with_spec
from reference.apiserver.kinds import FieldError, errors
from reference.apiserver.kinds.services import Services
from reference.client import Event, Object
from reference.features import Features
from reference.proxy import ServiceProxy
from reference.proxy.decision import Decision
from reference.proxy.state import State

INGRESS = "status.loadBalancer.ingress"
LACKED = ("healthCheckNodePort", "loadBalancerClass", "allocateLoadBalancerNodePorts", "ipFamilies", "ipFamilyPolicy")

MUTANTS: list[Mutant] = []

_hears = partial(proxy_hears, MUTANTS)
_of_services = partial(proxy_receives, MUTANTS, "services")
_controller_keeps = partial(controller_receives, MUTANTS)


def _with_ingress(service: Object, ingress: list[Object]) -> Object:
    return {**service, "status": {**(service.get("status") or {}), "loadBalancer": {"ingress": ingress}}}


def _ingress(service: Object) -> list[Object]:
    return list(((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ())


def _by_name(ports: Collection[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the ports by name. The name of an unnamed port is ""."""
    return {each.get("name") or "": each for each in ports}


@_of_services("ports-are-frozen", "The proxy ignores changes to a Service's ports.", symptom=ANY)
def ports_are_frozen(service: Object, before: Object) -> Object:
    present = _by_name(service["spec"].get("ports") or ())
    kept = [
        {**each, "nodePort": present.get(each.get("name") or "", {}).get("nodePort")}
        for each in before["spec"].get("ports") or ()
    ]
    return with_spec(service, ports=kept)


@_of_services(
    "type-is-frozen", "The proxy ignores updates of a Service while its type differs from its first type.", symptom=ANY
)
def type_is_frozen(service: Object, before: Object) -> Object:
    return service if service["spec"]["type"] == before["spec"]["type"] else before


@_of_services("external-name-keeps-rules", "The proxy still serves a Service that becomes ExternalName.")
def external_name_keeps_rules(service: Object, before: Object) -> Object:
    return before if service["spec"]["type"] == "ExternalName" else service


@_of_services("ip-mode-is-frozen", "The proxy ignores changes to a load balancer address's ipMode.")
def ip_mode_is_frozen(service: Object, before: Object) -> Object:
    modes = {each.get("ip"): each.get("ipMode") for each in _ingress(before)}
    kept = [{**each, "ipMode": modes.get(each.get("ip")) or each.get("ipMode")} for each in _ingress(service)]
    return _with_ingress(service, kept)


@_of_services(
    "ignores-ip-mode", "The proxy ignores the ipMode of load balancer addresses.", provenance="kube-proxy up to 1.29"
)
def ignores_ip_mode(service: Object, _: Object) -> Object:
    return _with_ingress(service, [{**each, "ipMode": "VIP"} for each in _ingress(service)])


@_of_services(
    "ip-mode-of-all-addresses",
    "If one load balancer address of a Service has ipMode Proxy, the proxy handles none of the addresses.",
    symptom=SILENT,
)
def ip_mode_of_all_addresses(service: Object, _: Object) -> Object:
    modes = {each.get("ipMode") or "VIP" for each in _ingress(service)}
    return _with_ingress(service, [{**each, "ipMode": min(modes)} for each in _ingress(service)])


@_of_services("source-ranges-are-frozen", "The proxy ignores changes to loadBalancerSourceRanges.")
def source_ranges_are_frozen(service: Object, before: Object) -> Object:
    return with_spec(service, loadBalancerSourceRanges=before["spec"].get("loadBalancerSourceRanges"))


@_of_services(
    "source-ranges-outlive-their-removal",
    "The proxy still applies loadBalancerSourceRanges after they are removed.",
    symptom=SILENT,
)
def source_ranges_outlive_their_removal(service: Object, before: Object) -> Object:
    ranges = [each["spec"].get("loadBalancerSourceRanges") for each in (service, before)]
    return with_spec(service, loadBalancerSourceRanges=ranges[0] or ranges[1])


def _rewriting_ranges(change: Callable[[list[str]], list[str]]) -> Callable[[Sink], Sink]:
    """Change the loadBalancerSourceRanges of Services that have any."""

    def changed(event: Event) -> Event:
        if event.resource != "services" or not (ranges := event.object["spec"].get("loadBalancerSourceRanges")):
            return event
        return Event(event.type, event.resource, with_spec(event.object, loadBalancerSourceRanges=change(ranges)))

    return rewriting(changed)


_hears("source-ranges-of-ipv4-alone", "The proxy ignores IPv6 ranges in loadBalancerSourceRanges.")(
    _rewriting_ranges(lambda ranges: [each for each in ranges if ":" not in each])
)


def _whole_octets(text: str) -> str:
    network = ip_network(text, strict=False)
    return str(network.supernet(new_prefix=network.prefixlen // 8 * 8))


_hears("source-ranges-of-whole-octets", "Prefix lengths in loadBalancerSourceRanges are rounded down to octets.")(
    _rewriting_ranges(lambda ranges: list(map(_whole_octets, ranges)))
)


@_of_services("affinity-timeout-is-frozen", "The proxy ignores changes to timeoutSeconds.", symptom="expected")
def affinity_timeout_is_frozen(service: Object, before: Object) -> Object:
    return with_spec(service, sessionAffinityConfig=before["spec"].get("sessionAffinityConfig"))


PROXY_NAME = "service.kubernetes.io/service-proxy-name"


def _for_proxy(name: str, service: Object) -> Object:
    """Return a Service with the label for the proxy `name`. The name "" means the default proxy."""
    labels = {key: value for key, value in (service["metadata"].get("labels") or {}).items() if key != PROXY_NAME}
    if name:
        labels[PROXY_NAME] = name
    return {**service, "metadata": {**service["metadata"], "labels": labels}}


@_of_services("proxy-name-at-first-sight", "The proxy ignores changes to a Service's service-proxy-name label.")
def proxy_name_at_first_sight(service: Object, before: Object) -> Object:
    return _for_proxy((before["metadata"].get("labels") or {}).get(PROXY_NAME, ""), service)


def _for_this_proxy(event: Event) -> Event:
    if (event.resource, event.type) != ("services", "ADDED"):
        return event
    return Event(event.type, event.resource, _for_proxy("", event.object))


_hears(
    "proxy-name-of-living-services-alone",
    "The proxy serves a Service that is created with a service-proxy-name label for another proxy.",
)(rewriting(_for_this_proxy))


def _as_formerly(service: Object, before: Object) -> Object:
    if service["metadata"].get("uid") == before["metadata"].get("uid"):
        return service
    kept = ("internalTrafficPolicy", "sessionAffinity")
    return with_spec(service, **{field: before["spec"].get(field) for field in kept})


_hears(
    "remembers-a-name",
    "A recreated Service has the policy and the affinity of the deleted Service with the same name.",
    symptom=ANY,
)(told("services", _as_formerly, beyond_deletion=True))


@_hears(
    "addresses-are-used-once", "The proxy never again serves a cluster IP that a deleted Service had.", symptom=SILENT
)
def addresses_are_used_once(sink: Sink) -> Sink:
    owners: dict[str, str] = {}

    def filtered(event: Event) -> None:
        if event.resource == "services" and event.type in ("ADDED", "MODIFIED"):
            address, uid = event.object["spec"].get("clusterIP", ""), event.object["metadata"]["uid"]
            if owners.setdefault(address, uid) != uid:
                return
        sink(event)

    return filtered


def _no_ingress_without_node_ports(event: Event) -> Event:
    if event.resource != "services" or any(each.get("nodePort") for each in event.object["spec"]["ports"]):
        return event
    return Event(event.type, event.resource, _with_ingress(event.object, []))


_hears(
    "needs-node-ports-for-load-balancers",
    "The proxy does not serve the load balancer addresses of a Service without node ports.",
    symptom=SILENT,
)(rewriting(_no_ingress_without_node_ports))


# Nodes


HOSTNAME_LABEL = "kubernetes.io/hostname"


class _ReadsNameFromLabel(State):
    _label = ""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, decide=deciding(self._wrong))

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        super().receive(resource, obj, deleted=deleted)
        if resource == "nodes" and obj["metadata"]["name"] == self._node.place.node and not deleted:
            self._label = (obj["metadata"].get("labels") or {}).get(HOSTNAME_LABEL, "")
            self._changed.update(dict.fromkeys(self._services))

    def _wrong(self, asked: DecisionInput) -> Decision:
        return asked.answer(place=replace(asked.place, node=self._label))


MUTANTS.append(
    Mutant(
        "named-by-its-hostname-label",
        "The proxy identifies a node by its hostname label instead of its name.",
        "kubernetes#71851",
        ANY,
        proxy=partial(ServiceProxy, state=_ReadsNameFromLabel),
    )
)


def _of_the_first_uid(node: Object, before: Object) -> Object:
    return node if node["metadata"].get("uid") == before["metadata"].get("uid") else before


_nodes_by_uid = told("nodes", _of_the_first_uid, beyond_deletion=True)
_hears("knows-its-node-by-the-uid", "The proxy ignores a Node that is recreated with the same name.")(_nodes_by_uid)


# Controllers

MUTANTS.append(
    Mutant(
        "knows-nodes-by-their-uid",
        "The proxy treats a Node that is recreated with the same name as the old Node.",
        symptom=WRITTEN,
        controller=controller_hearing(_nodes_by_uid),
    )
)


@_controller_keeps("target-ports-are-frozen", "The controller ignores changes to a Service's target ports.")
def target_ports_are_frozen(service: Object, before: Object) -> Object:
    return with_spec(service, ports=before["spec"].get("ports"))


@_controller_keeps(
    "protocols-of-slices-are-frozen", "The controller ignores changes to the protocol of a Service's port."
)
def protocols_of_slices_are_frozen(service: Object, before: Object) -> Object:
    known = _by_name(before["spec"].get("ports") or ())
    ports = service["spec"].get("ports") or ()
    kept = [{**each, "protocol": known.get(each.get("name") or "", each).get("protocol")} for each in ports]
    return with_spec(service, ports=kept)


@_controller_keeps("families-are-frozen", "The controller ignores changes to a Service's IP families.")
def families_are_frozen(service: Object, before: Object) -> Object:
    return with_spec(service, ipFamilies=before["spec"].get("ipFamilies"))


@_controller_keeps("selector-is-frozen", "The controller ignores changes to a Service's selector.")
def selector_is_frozen(service: Object, before: Object) -> Object:
    return with_spec(service, selector=before["spec"].get("selector"))


@_controller_keeps("publishing-is-frozen", "The controller ignores changes to publishNotReadyAddresses.")
def publishing_is_frozen(service: Object, before: Object) -> Object:
    return with_spec(service, publishNotReadyAddresses=before["spec"].get("publishNotReadyAddresses"))


# API servers


def _api_server(name: str, sentence: str) -> Callable[[type[Services]], type[Services]]:
    def register(kind: type[Services]) -> type[Services]:
        MUTANTS.append(Mutant(name, sentence, "", WRITTEN, kinds=lambda: (kind(),)))
        return kind

    return register


@_api_server("update-wipes-the-status", "A write of a Service clears its status.")
class _UpdateClearsStatus(Services):
    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        super().prepare_for_update(new, old, features)
        new["status"] = {"loadBalancer": {}}


@_api_server("one-ingress-point", "The API server stores at most one load balancer address for a Service.")
class _OneLoadBalancerAddress(Services):
    def validate_status_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found, count = super().validate_status_update(new, old, features), len(_ingress(new))
        return [*found, errors.too_many(INGRESS, count, 1)] if count > 1 else found


@_api_server("no-ip-mode", "The API server rejects the ipMode of a load balancer address.")
class _RejectsIpMode(Services):
    def validate_status_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found = super().validate_status_update(new, old, features)
        said = "may not be specified"
        return found + [errors.forbidden(f"{INGRESS}.ipMode", said) for each in _ingress(new) if each.get("ipMode")]


@_api_server(
    "types-keep-what-they-lack",
    "When the type of a Service changes, the API server keeps fields that the new type cannot have.",
)
class _KeepsFieldsOfOldType(Services):
    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        super().prepare_for_update(new, old, features)
        new["spec"] = {**{name: old["spec"][name] for name in LACKED if name in old["spec"]}, **new["spec"]}


@_api_server("external-names-for-ever", "The API server rejects changes to the type of an ExternalName Service.")
class _ImmutableExternalName(Services):
    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found = super().validate_update(new, old, features)
        was, becomes = old["spec"].get("type"), new["spec"].get("type")
        return [*found, errors.forbidden("spec.type", "may not change")] if was == "ExternalName" != becomes else found


@_api_server(
    "status-comes-with-the-spec", "The API server stores a status that is written together with a Service's spec."
)
class _SpecUpdateSetsStatus(Services):
    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        given = new.get("status")
        super().prepare_for_update(new, old, features)
        new["status"] = given or new.get("status") or {}


@_api_server(
    "field-for-cluster-ips-only", "The API server stores trafficDistribution only for Services of type ClusterIP."
)
class _DistributionForClusterIpsOnly(Services):
    def prepare_for_create(self, obj: Object, features: Features) -> None:
        super().prepare_for_create(obj, features)
        if obj["spec"].get("type", "ClusterIP") != "ClusterIP":
            obj["spec"].pop("trafficDistribution", None)


@_api_server(
    "type-change-drops-the-field", "The API server removes trafficDistribution when the type of a Service changes."
)
class _TypeChangeDropsDistribution(Services):
    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        super().prepare_for_update(new, old, features)
        if new["spec"]["type"] != old["spec"]["type"]:
            new["spec"].pop("trafficDistribution", None)
