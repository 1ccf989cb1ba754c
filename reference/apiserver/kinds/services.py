"""Services."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from reference.apiserver.kinds import (
    columns,
    errors,
    metadata,
    names,
    service_fields,
    service_update,
    service_validation,
    versioned_fields,
)
from reference.apiserver.kinds.conditions import CONDITION
from reference.apiserver.kinds.service_fields import (
    Spec,
    is_headless,
    needs_cluster_ip,
    needs_health_check,
    spec_of,
    wants_node_ports,
)
from reference.apiserver.kinds.shapes import (
    ANY,
    BOOLEAN,
    INT_OR_STRING,
    INTEGER,
    OTHERS,
    STRING,
    STRING_MAP,
    Shape,
    fields,
    of_object,
)
from reference.apiserver.kinds.strategy import Allocations, Resource, Strategy
from reference.client import Object
from reference.features import Features

_DISTRIBUTION = "spec.trafficDistribution"
_GATED = tuple(field for field in versioned_fields.fields_of("Service") if field.gate)


_PORT: Shape = {
    **fields(STRING, "name", "protocol", "appProtocol"),
    **fields(INTEGER, "port", "nodePort"),
    "targetPort": INT_OR_STRING,
}
_SPEC: Shape = {
    **fields(STRING, "type", "clusterIP", "ipFamilyPolicy", "externalName", "loadBalancerIP", "loadBalancerClass"),
    **fields(STRING, "externalTrafficPolicy", "internalTrafficPolicy", "sessionAffinity", "trafficDistribution"),
    **fields([STRING], "clusterIPs", "ipFamilies", "externalIPs", "loadBalancerSourceRanges", "topologyKeys"),
    **fields(BOOLEAN, "allocateLoadBalancerNodePorts", "publishNotReadyAddresses"),
    "healthCheckNodePort": INTEGER,
    "selector": STRING_MAP,
    "ports": [_PORT],
    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": INTEGER}},
}

_STATUS: Shape = {
    "loadBalancer": {"ingress": [{"ip": STRING, "hostname": STRING, "ipMode": STRING, OTHERS: ANY}]},
    "conditions": [CONDITION],
}


def _cluster_ip(service: Object) -> str:
    many = service["spec"].get("clusterIPs") or []
    return many[0] if many else columns.NONE


def _external_ip(service: Object) -> str:
    spec: Spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress") or []
    balancer = sorted({each.get("ip") or each.get("hostname") or "" for each in ingress})
    if spec.get("type") == "LoadBalancer":
        return ",".join([*balancer, *(spec.get("externalIPs") or [])]) or "<pending>"
    return columns.listed(spec.get("externalIPs") or [])


def _ports(service: Object) -> str:
    return columns.listed(
        f"{port['port']}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port.get('protocol', 'TCP')}"
        for port in service["spec"].get("ports") or []
    )


_TABLE = (
    columns.NAME,
    columns.text("Type", "How the Service is exposed.", lambda service: service["spec"].get("type", "")),
    columns.text("Cluster-IP", "Virtual IP address; None for a headless Service.", _cluster_ip),
    columns.text("External-IP", "Addresses or names for external clients.", _external_ip),
    columns.text("Port(s)", "Port, node port and protocol of each port.", _ports),
    columns.AGE,
    columns.text(
        "Selector",
        "Labels of the pods that the Service selects.",
        lambda service: columns.listed(map("=".join, sorted((service["spec"].get("selector") or {}).items()))),
        wide=True,
    ),
)


class Services(Strategy):
    """The strategy of Services in a cluster whose Service CIDRs have `families`, the default family first."""

    resource = Resource("", "v1", "Service", "services", "service", ("svc",), has_status=True, categories=("all",))
    shape = of_object(spec=_SPEC, status=_STATUS)
    selectable_fields: ClassVar = {
        "spec.clusterIP": lambda obj: obj["spec"].get("clusterIP", ""),
        "spec.type": lambda obj: obj["spec"].get("type", ""),
    }
    table = _TABLE

    def __init__(self, families: Sequence[str] = ("IPv4", "IPv6")) -> None:
        self.families = tuple(families)

    def valid_name(self, name: str) -> list[str]:
        return names.dns_1035_label(name)

    def default(self, obj: Object) -> None:
        service_fields.set_defaults(obj)

    def prepare_for_create(self, obj: Object, features: Features) -> None:
        spec = spec_of(obj)
        obj["status"] = {"loadBalancer": {}}
        _drop_disabled(spec, {}, features)
        service_fields.set_cluster_ips(spec)
        service_fields.choose_families(spec, self.families)

    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        spec, was = spec_of(new), spec_of(old)
        super().prepare_for_update(new, old, features)
        _drop_disabled(spec, was, features)
        service_update.release_unneeded(spec, was)
        service_update.keep_allocated(spec, was)
        service_update.drop_second_family(spec, was)
        if not needs_cluster_ip(was) or not _families_settled(spec, was):
            service_fields.set_cluster_ips(spec)
            service_fields.choose_families(spec, self.families)
        if spec.get("type") != "LoadBalancer":
            new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}

    def validate(self, obj: Object, features: Features) -> list[errors.FieldError]:
        return super().validate(obj, features) + service_validation.validate(obj, features, self.families)

    def validate_update(self, new: Object, old: Object, features: Features) -> list[errors.FieldError]:
        changed = service_update.validate(new["spec"], old["spec"])
        found = [*metadata.validate_update(new, old), *changed, *self.validate(new, features)]
        return [each for each in found if each.field != _DISTRIBUTION] if _keeps_value(new, old, features) else found

    def validate_status_update(self, new: Object, old: Object, features: Features) -> list[errors.FieldError]:
        return super().validate_status_update(new, old, features) + service_validation.validate_status(new)

    def warnings(self, obj: Object, features: Features) -> list[str]:
        return list(_warnings(obj, features))

    def allocations(self, obj: Object) -> Allocations:
        spec: Spec = obj["spec"]
        families: tuple[str, ...] = ()
        asked: list[str] = []
        if needs_cluster_ip(spec) and not is_headless(spec):
            families = tuple(spec.get("ipFamilies") or ())
            asked = [*(spec.get("clusterIPs") or []), "", ""][: len(families)]
        every = spec.get("ports") or []
        wanted = [index for index, port in enumerate(every) if port.get("nodePort") or wants_node_ports(spec)]
        return Allocations(families, tuple(asked), tuple(wanted), needs_health_check(spec))


def _drop_disabled(spec: Spec, old: Mapping[str, Any], features: Features) -> None:
    """Drop fields that this release lacks, and fields whose gate is disabled unless the stored Service uses them."""
    for field in _GATED:
        name = field.path[-1]
        in_use = field.exists(features.version, features.asked_for) and bool(old.get(name))
        if name in spec and not in_use and not field.enabled(features):
            spec.pop(name)


def _keeps_value(new: Object, old: Object, features: Features) -> bool:
    """Return whether an update may keep trafficDistribution with its gate disabled: yes in KEP-3015, no in releases."""
    was, now = (each["spec"].get("trafficDistribution") for each in (old, new))
    return features.follows == "kep" and was == now


def _families_settled(spec: Spec, old: Spec) -> bool:
    """Return whether the IP families are unchanged. If so, an added second Service CIDR does not affect the Service."""
    return all(spec.get(name) == old.get(name) for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"))


def _warnings(service: Object, features: Features) -> Iterator[str]:
    spec: Spec = service.get("spec") or {}
    kind, headless, external_ips = spec.get("type"), is_headless(spec), bool(spec.get("externalIPs"))
    old, new = service_validation.HINTS_ANNOTATION, service_validation.MODE_ANNOTATION
    if features.at_least(27) and old in (service["metadata"].get("annotations") or {}):
        yield f"annotation {old} is deprecated, please use {new} instead"
    if headless and spec.get("loadBalancerIP"):
        yield "spec.loadBalancerIP is ignored for headless services"
    if headless and external_ips:
        yield "spec.externalIPs is ignored for headless services"
    if headless and spec.get("sessionAffinity", "None") != "None":
        yield "spec.SessionAffinity is ignored for headless services"
    if features.at_least(36) and external_ips and not headless and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if external_ips and kind == "ExternalName":
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if spec.get("externalName") and kind != "ExternalName":
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if features.at_least(35) and spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'
