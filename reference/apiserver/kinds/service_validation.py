"""Validates Services in kube-apiserver's order and with its messages, before addresses and ports are allocated."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reference.apiserver.kinds import addresses, conditions, errors, metadata, names
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.service_families import validate_families
from reference.apiserver.kinds.service_fields import (
    HAVE_ADDRESSES,
    HEADLESS,
    TRAFFIC_POLICIES,
    TYPES,
    Spec,
    externally_accessible,
    is_headless,
    needs_health_check,
)
from reference.client import Object
from reference.features import Features

KUBELET_PORT = 10250
MAX_TOPOLOGY_KEYS = 16
MAX_AFFINITY_SECONDS = 86400
HINTS_ANNOTATION = "service.kubernetes.io/topology-aware-hints"
MODE_ANNOTATION = "service.kubernetes.io/topology-mode"
SOURCE_RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
_ONLY_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"


def validate(service: Object, features: Features, cluster_families: Sequence[str]) -> list[FieldError]:
    spec: Spec = service.get("spec") or {}
    annotations = service["metadata"].get("annotations") or {}
    return [
        *_validate_annotations(annotations, features),
        *_validate_type(spec),
        *_validate_ports(spec),
        *metadata.validate_labels(spec.get("selector") or {}, "spec.selector"),
        *_validate_affinity(spec),
        *validate_families(spec, cluster_families),
        *_validate_external_ips(spec),
        *_validate_load_balancer(spec, annotations),
        *_validate_external_policy(spec),
        *_validate_internal_policy(spec, features),
        *validate_traffic_distribution(spec, features),
        *_validate_topology_keys(spec),
    ]


def validate_status(service: Object) -> list[FieldError]:
    status = service.get("status") or {}
    return [*_validate_ingress(service), *conditions.validate(status.get("conditions") or [], "status.conditions")]


def _validate_ingress(service: Object) -> Iterator[FieldError]:
    path = "status.loadBalancer.ingress"
    ingress = (service.get("status") or {}).get("loadBalancer", {}).get("ingress") or []
    if ingress and service["spec"].get("type") != "LoadBalancer":
        yield errors.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")
    for index, each in enumerate(ingress):
        at, name = f"{path}[{index}]", each.get("hostname") or ""
        if each.get("ip"):
            yield from addresses.validate_ip(each["ip"], f"{at}.ip")
        if each.get("ipMode") and each["ipMode"] not in {"VIP", "Proxy"}:
            yield errors.not_supported(f"{at}.ipMode", each["ipMode"], ("Proxy", "VIP"))
        if each.get("ipMode") and not each.get("ip"):
            yield errors.forbidden(f"{at}.ipMode", "may not be specified when `ip` is not set")
        if name and addresses.parse(name):
            yield errors.invalid(f"{at}.hostname", name, "must be a DNS name, not an IP address")
        elif name:
            yield from errors.violations(f"{at}.hostname", name, names.dns_subdomain)


def _validate_annotations(annotations: Mapping[str, str], features: Features) -> list[FieldError]:
    if not features.at_least(27) or not {HINTS_ANNOTATION, MODE_ANNOTATION} <= annotations.keys():
        return []
    if annotations[HINTS_ANNOTATION] == annotations[MODE_ANNOTATION]:
        return []
    said = f"must match annotations[{HINTS_ANNOTATION}] when both are specified"
    return [errors.invalid(f"metadata.annotations[{MODE_ANNOTATION}]", annotations[MODE_ANNOTATION], said)]


def _validate_type(spec: Spec) -> Iterator[FieldError]:
    kind = spec.get("type") or ""
    yield from errors.choice("spec.type", kind, TYPES)
    if kind in {"LoadBalancer", "NodePort"} and is_headless(spec):
        yield errors.invalid("spec.clusterIPs[0]", HEADLESS, f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        yield from _validate_external_name(spec)


def _validate_external_name(spec: Spec) -> Iterator[FieldError]:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield errors.forbidden(f"spec.{name}", "may not be set for ExternalName services")
    target = (spec.get("externalName") or "").removesuffix(".")
    if target:
        yield from errors.violations("spec.externalName", target, names.dns_subdomain)
    else:
        yield errors.required("spec.externalName")


def _validate_ports(spec: Spec) -> Iterator[FieldError]:
    every = spec.get("ports") or []
    if not every and not is_headless(spec) and spec.get("type") != "ExternalName":
        yield errors.required("spec.ports")
    seen_names: set[str] = set()
    seen: set[tuple[str, Any]] = set()
    seen_node_ports: set[tuple[str, Any]] = set()
    for index, port in enumerate(every):
        path = f"spec.ports[{index}]"
        yield from _validate_port(port, path, name_required=len(every) > 1, seen=seen_names)
        yield from _validate_node_port(port, path, spec, seen_node_ports)
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in seen:
            yield errors.duplicate(path, {"port": key[1], "protocol": key[0]})
        seen.add(key)
        if spec.get("type") == "LoadBalancer" and port.get("port") == KUBELET_PORT:
            said = f"may not expose port {KUBELET_PORT} externally since it is used by kubelet"
            yield errors.invalid(path, KUBELET_PORT, said)


def _validate_port(port: Mapping[str, Any], path: str, *, name_required: bool, seen: set[str]) -> Iterator[FieldError]:
    name, target = port.get("name") or "", port.get("targetPort", 0)
    if name:
        yield from errors.violations(f"{path}.name", name, names.dns_label)
        yield from errors.unique(f"{path}.name", name, seen)
    elif name_required:
        yield errors.required(f"{path}.name")
    yield from addresses.validate_port(port.get("port", 0), f"{path}.port")
    yield from errors.choice(f"{path}.protocol", port.get("protocol") or "", addresses.PROTOCOLS)
    if isinstance(target, str):
        yield from errors.violations(f"{path}.targetPort", target, names.port_name)
    else:
        yield from addresses.validate_port(target, f"{path}.targetPort")
    if port.get("appProtocol") is not None:
        yield from errors.violations(f"{path}.appProtocol", port["appProtocol"], names.qualified_name)


def _validate_node_port(
    port: Mapping[str, Any], path: str, spec: Spec, seen: set[tuple[str, Any]]
) -> Iterator[FieldError]:
    number = port.get("nodePort") or 0
    key = (port.get("protocol", ""), number)
    if number and spec.get("type") == "ClusterIP":
        yield errors.forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")
    elif number and key in seen:
        yield errors.duplicate(f"{path}.nodePort", number)
    elif number:
        seen.add(key)


def _validate_affinity(spec: Spec) -> list[FieldError]:
    affinity, config = spec.get("sessionAffinity") or "", spec.get("sessionAffinityConfig")
    path = "spec.sessionAffinityConfig"
    if affinity not in {"None", "ClientIP"}:
        return [errors.not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))]
    if affinity == "None":
        said = "must not be set when session affinity is None"
        return [errors.forbidden(path, said)] if config is not None else []
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is None:
        return [errors.required(f"{path}.clientIP.timeoutSeconds", "when session affinity type is ClientIP")]
    if not 0 < seconds <= MAX_AFFINITY_SECONDS:
        said = f"must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"
        return [errors.invalid(f"{path}.clientIP.timeoutSeconds", seconds, said)]
    return []


def _validate_external_ips(spec: Spec) -> Iterator[FieldError]:
    for index, address in enumerate(spec.get("externalIPs") or []):
        path = f"spec.externalIPs[{index}]"
        yield from addresses.validate_ip(address, path) or addresses.validate_reachable(address, path)


def _validate_load_balancer(spec: Spec, annotations: Mapping[str, str]) -> Iterator[FieldError]:
    is_load_balancer = spec.get("type") == "LoadBalancer"
    yield from _validate_source_ranges(spec, annotations, is_load_balancer=is_load_balancer)
    for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(name) is not None and not is_load_balancer:
            yield errors.forbidden(f"spec.{name}", _ONLY_LOAD_BALANCER)
    if is_load_balancer and spec.get("loadBalancerClass") is not None:
        yield from errors.violations("spec.loadBalancerClass", spec["loadBalancerClass"], names.qualified_name)


def _validate_source_ranges(
    spec: Spec, annotations: Mapping[str, str], *, is_load_balancer: bool
) -> Iterator[FieldError]:
    if spec.get("loadBalancerSourceRanges"):
        path = "spec.LoadBalancerSourceRanges"  # with a capital L, as in the released server
        ranges = [(f"{path}[{index}]", each) for index, each in enumerate(spec["loadBalancerSourceRanges"])]
    elif SOURCE_RANGES_ANNOTATION in annotations:
        path = f"metadata.annotations[{SOURCE_RANGES_ANNOTATION}]"
        text = annotations[SOURCE_RANGES_ANNOTATION].strip()
        ranges = [(path, each) for each in text.split(",")] if text else []
    else:
        return
    if not is_load_balancer:
        yield errors.forbidden(path, _ONLY_LOAD_BALANCER)
    for at, each in ranges:
        yield from addresses.validate_cidr(each.strip(), at)


def _validate_external_policy(spec: Spec) -> Iterator[FieldError]:
    path, policy = "spec.externalTrafficPolicy", spec.get("externalTrafficPolicy") or ""
    if externally_accessible(spec):
        yield from errors.choice(path, policy, TRAFFIC_POLICIES)
    elif policy:
        yield errors.invalid(path, policy, "may only be set for externally-accessible services")
    port, path = spec.get("healthCheckNodePort") or 0, "spec.healthCheckNodePort"
    if port and not needs_health_check(spec):
        said = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield errors.invalid(path, port, said)
    elif port:
        yield from addresses.validate_port(port, path)


def _validate_internal_policy(spec: Spec, features: Features) -> list[FieldError]:
    path, policy = "spec.internalTrafficPolicy", spec.get("internalTrafficPolicy")
    if policy is None:
        wanted = spec.get("type") in HAVE_ADDRESSES and features.enabled("ServiceInternalTrafficPolicy")
        return [errors.required(path)] if wanted else []
    return [] if policy in TRAFFIC_POLICIES else [errors.not_supported(path, policy, TRAFFIC_POLICIES)]


def validate_traffic_distribution(spec: Spec, features: Features) -> list[FieldError]:
    """Validate trafficDistribution. KEP-4444 also allows `<domain>/<name>`, which released Kubernetes refuses."""
    value, path = spec.get("trafficDistribution"), "spec.trafficDistribution"
    if features.follows == "kep" and value and "/" in value:
        said = "must be of the form <domain>/<name>, when it is not one of the standard values"
        return [errors.invalid(path, value, f"{said}: {each}") for each in names.qualified_name(value)]
    supported = ["PreferClose"]
    if features.enabled("PreferSameTrafficDistribution"):
        supported += ["PreferSameZone", "PreferSameNode"]
    if value is None or value in supported:
        return []
    return [errors.not_supported(path, value, supported)]


def _validate_topology_keys(spec: Spec) -> Iterator[FieldError]:
    """Validate topologyKeys (KEP-536): an ordered list of node labels, the last of which may be "*"."""
    keys, path = spec.get("topologyKeys") or [], "spec.topologyKeys"
    if keys and spec.get("externalTrafficPolicy") == "Local":
        yield errors.forbidden(path, "may not be specified when `externalTrafficPolicy=Local`")
    if len(keys) > MAX_TOPOLOGY_KEYS:
        yield errors.too_many(path, len(keys), MAX_TOPOLOGY_KEYS)
        return
    for index, key in enumerate(keys):
        at = f"{path}[{index}]"
        if key in keys[:index]:
            yield errors.duplicate(at, key)
        if key != "*":
            yield from errors.violations(at, key, names.qualified_name)
        elif index != len(keys) - 1:
            yield errors.invalid(at, key, '"*" must be the last value specified')
