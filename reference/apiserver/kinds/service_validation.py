"""Validation of Services, with the order and messages of the released server.

Validation runs before addresses and ports are allocated, so it does not report values that are still missing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from reference.apiserver.kinds import addresses, conditions, errors, metadata, names, ports
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
    return _validate_ingress(service) + conditions.validate(status.get("conditions") or [], "status.conditions")


def _validate_ingress(service: Object) -> list[FieldError]:
    """Validate IPs and hostnames, which only Services of type LoadBalancer may have."""
    path = "status.loadBalancer.ingress"
    found: list[FieldError] = []
    ingress = (service.get("status") or {}).get("loadBalancer", {}).get("ingress") or []
    if ingress and service["spec"].get("type") != "LoadBalancer":
        found.append(errors.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'"))
    for index, each in enumerate(ingress):
        at, name = f"{path}[{index}]", each.get("hostname") or ""
        if each.get("ip"):
            found += addresses.validate_ip(each["ip"], f"{at}.ip")
        if each.get("ipMode") and each["ipMode"] not in {"VIP", "Proxy"}:
            found.append(errors.not_supported(f"{at}.ipMode", each["ipMode"], ("Proxy", "VIP")))
        if each.get("ipMode") and not each.get("ip"):
            found.append(errors.forbidden(f"{at}.ipMode", "may not be specified when `ip` is not set"))
        if name and addresses.parse(name):
            found.append(errors.invalid(f"{at}.hostname", name, "must be a DNS name, not an IP address"))
        elif name:
            found += [errors.invalid(f"{at}.hostname", name, said) for said in names.dns_subdomain(name)]
    return found


def _validate_annotations(annotations: Mapping[str, str], features: Features) -> list[FieldError]:
    if not features.at_least(27) or not {HINTS_ANNOTATION, MODE_ANNOTATION} <= annotations.keys():
        return []
    if annotations[HINTS_ANNOTATION] == annotations[MODE_ANNOTATION]:
        return []
    said = f"must match annotations[{HINTS_ANNOTATION}] when both are specified"
    return [errors.invalid(f"metadata.annotations[{MODE_ANNOTATION}]", annotations[MODE_ANNOTATION], said)]


def _validate_type(spec: Spec) -> list[FieldError]:
    kind = spec.get("type") or ""
    found: list[FieldError] = []
    if not kind:
        found.append(errors.required("spec.type"))
    elif kind not in TYPES:
        found.append(errors.not_supported("spec.type", kind, TYPES))
    if kind in {"LoadBalancer", "NodePort"} and is_headless(spec):
        said = f"may not be set to 'None' for {kind} services"
        found.append(errors.invalid("spec.clusterIPs[0]", HEADLESS, said))
    if kind == "ExternalName":
        found += _validate_external_name(spec)
    return found


def _validate_external_name(spec: Spec) -> list[FieldError]:
    found = [
        errors.forbidden(f"spec.{name}", "may not be set for ExternalName services")
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(name)
    ]
    target = (spec.get("externalName") or "").removesuffix(".")
    if not target:
        found.append(errors.required("spec.externalName"))
    return found + [errors.invalid("spec.externalName", target, each) for each in names.dns_subdomain(target) if target]


def _validate_ports(spec: Spec) -> list[FieldError]:
    every = spec.get("ports") or []
    found: list[FieldError] = []
    if not every and not is_headless(spec) and spec.get("type") != "ExternalName":
        found.append(errors.required("spec.ports"))
    seen_names: set[str] = set()
    seen: set[tuple[str, Any]] = set()
    seen_node_ports: set[tuple[str, Any]] = set()
    for index, port in enumerate(every):
        path = f"spec.ports[{index}]"
        found += _validate_port(port, path, name_required=len(every) > 1, seen=seen_names)
        found += _validate_node_port(port, path, spec, seen_node_ports)
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in seen:
            found.append(errors.duplicate(path, {"port": key[1], "protocol": key[0]}))
        seen.add(key)
        if spec.get("type") == "LoadBalancer" and port.get("port") == KUBELET_PORT:
            said = f"may not expose port {KUBELET_PORT} externally since it is used by kubelet"
            found.append(errors.invalid(path, KUBELET_PORT, said))
    return found


def _validate_port(port: Mapping[str, Any], path: str, *, name_required: bool, seen: set[str]) -> list[FieldError]:
    name, found = port.get("name") or "", []
    if name:
        found += [errors.invalid(f"{path}.name", name, each) for each in names.dns_label(name)]
        if name in seen:
            found.append(errors.duplicate(f"{path}.name", name))
        seen.add(name)
    elif name_required:
        found.append(errors.required(f"{path}.name"))
    found += ports.validate_number(port.get("port", 0), f"{path}.port")
    found += ports.validate_protocol(port.get("protocol") or "", f"{path}.protocol")
    found += ports.validate_number_or_name(port.get("targetPort", 0), f"{path}.targetPort")
    if port.get("appProtocol") is not None:
        said = names.qualified_name(port["appProtocol"])
        found += [errors.invalid(f"{path}.appProtocol", port["appProtocol"], each) for each in said]
    return found


def _validate_node_port(port: Mapping[str, Any], path: str, spec: Spec, seen: set[tuple[str, Any]]) -> list[FieldError]:
    number = port.get("nodePort") or 0
    if not number:
        return []
    if spec.get("type") == "ClusterIP":
        return [errors.forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")]
    key = (port.get("protocol", ""), number)
    if key in seen:
        return [errors.duplicate(f"{path}.nodePort", number)]
    seen.add(key)
    return []


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


def _validate_external_ips(spec: Spec) -> list[FieldError]:
    found: list[FieldError] = []
    for index, address in enumerate(spec.get("externalIPs") or []):
        path = f"spec.externalIPs[{index}]"
        found += addresses.validate_ip(address, path) or addresses.validate_reachable(address, path)
    return found


def _validate_load_balancer(spec: Spec, annotations: Mapping[str, str]) -> list[FieldError]:
    is_load_balancer = spec.get("type") == "LoadBalancer"
    found = _validate_source_ranges(spec, annotations, is_load_balancer=is_load_balancer)
    found += [
        errors.forbidden(f"spec.{name}", _ONLY_LOAD_BALANCER)
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass")
        if spec.get(name) is not None and not is_load_balancer
    ]
    if is_load_balancer and spec.get("loadBalancerClass") is not None:
        name = spec["loadBalancerClass"]
        found += [errors.invalid("spec.loadBalancerClass", name, each) for each in names.qualified_name(name)]
    return found


def _validate_source_ranges(spec: Spec, annotations: Mapping[str, str], *, is_load_balancer: bool) -> list[FieldError]:
    if spec.get("loadBalancerSourceRanges"):
        path = "spec.LoadBalancerSourceRanges"  # capital in the released server too
        ranges = [(f"{path}[{index}]", each) for index, each in enumerate(spec["loadBalancerSourceRanges"])]
    elif SOURCE_RANGES_ANNOTATION in annotations:
        path = f"metadata.annotations[{SOURCE_RANGES_ANNOTATION}]"
        text = annotations[SOURCE_RANGES_ANNOTATION].strip()
        ranges = [(path, each) for each in text.split(",")] if text else []
    else:
        return []
    found = [] if is_load_balancer else [errors.forbidden(path, _ONLY_LOAD_BALANCER)]
    for at, each in ranges:
        found += addresses.validate_cidr(each.strip(), at)
    return found


def _validate_external_policy(spec: Spec) -> list[FieldError]:
    path, policy = "spec.externalTrafficPolicy", spec.get("externalTrafficPolicy") or ""
    found: list[FieldError] = []
    if not externally_accessible(spec):
        if policy:
            found.append(errors.invalid(path, policy, "may only be set for externally-accessible services"))
    elif not policy:
        found.append(errors.required(path))
    elif policy not in TRAFFIC_POLICIES:
        found.append(errors.not_supported(path, policy, TRAFFIC_POLICIES))
    port, path = spec.get("healthCheckNodePort") or 0, "spec.healthCheckNodePort"
    if port and not needs_health_check(spec):
        said = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        found.append(errors.invalid(path, port, said))
    elif port:
        found += ports.validate_number(port, path)
    return found


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


def _validate_topology_keys(spec: Spec) -> list[FieldError]:
    """Validate topologyKeys (KEP-536): an ordered list of node labels, the last of which may be "*"."""
    keys, path = spec.get("topologyKeys") or [], "spec.topologyKeys"
    found: list[FieldError] = []
    if keys and spec.get("externalTrafficPolicy") == "Local":
        found.append(errors.forbidden(path, "may not be specified when `externalTrafficPolicy=Local`"))
    if len(keys) > MAX_TOPOLOGY_KEYS:
        return [*found, errors.too_many(path, len(keys), MAX_TOPOLOGY_KEYS)]
    for index, key in enumerate(keys):
        at = f"{path}[{index}]"
        if key in keys[:index]:
            found.append(errors.duplicate(at, key))
        if key != "*":
            found += [errors.invalid(at, key, each) for each in names.qualified_name(key)]
        elif index != len(keys) - 1:
            found.append(errors.invalid(at, key, '"*" must be the last value specified'))
    return found
