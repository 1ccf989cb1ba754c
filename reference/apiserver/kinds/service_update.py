"""Updates of a Service: which omitted values are kept, which unneeded values are cleared, and which are immutable."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reference.apiserver.kinds import errors
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.service_fields import (
    Spec,
    externally_accessible,
    is_headless,
    may_have_node_ports,
    needs_cluster_ip,
    needs_health_check,
    wants_node_ports,
)

_UNCHANGED = "may not change once set"


def keep_allocated(new: Spec, old: Spec) -> None:
    """Copy allocated values that the client omitted (cluster IPs, node ports) from `old` to `new`."""
    if needs_cluster_ip(old) and needs_cluster_ip(new):
        _keep_cluster_ips(new, old)
    if wants_node_ports(old) and wants_node_ports(new):
        _keep_node_ports(new, old)
    if needs_health_check(old) and needs_health_check(new) and old.get("healthCheckNodePort"):
        new["healthCheckNodePort"] = new.get("healthCheckNodePort") or old["healthCheckNodePort"]


def release_unneeded(new: Spec, old: Spec) -> None:
    """Remove fields that the new type cannot have, if the client did not change them."""
    releases: tuple[tuple[Callable[[Spec], bool], tuple[str, ...]], ...] = (
        (needs_health_check, ("healthCheckNodePort",)),
        (lambda spec: spec.get("type") == "LoadBalancer", ("allocateLoadBalancerNodePorts", "loadBalancerClass")),
        (externally_accessible, ("externalTrafficPolicy",)),
        (needs_cluster_ip, ("ipFamilies", "ipFamilyPolicy")),
    )
    for needed, fields in releases:
        if needed(old) and not needed(new):
            for name in fields:
                if new.get(name) == old.get(name):
                    new.pop(name, None)
    if needs_cluster_ip(old) and not needs_cluster_ip(new) and _same(new, old, "clusterIP", "clusterIPs"):
        new.pop("clusterIP", None)
        new.pop("clusterIPs", None)
    if may_have_node_ports(old) and not may_have_node_ports(new) and _node_ports(new) <= _node_ports(old):
        for port in new.get("ports") or []:
            port.pop("nodePort", None)


def drop_second_family(new: Spec, old: Spec) -> None:
    """Drop the second address and family of a Service that becomes SingleStack, if the client left them unchanged."""
    if old.get("ipFamilyPolicy") not in {"PreferDualStack", "RequireDualStack"}:
        return
    if new.get("ipFamilyPolicy") == "SingleStack":
        for name in ("clusterIPs", "ipFamilies"):
            if len(new.get(name) or []) > 1 and _same(new, old, name):
                new[name] = new[name][:1]


def validate(new: Spec, old: Spec) -> Iterator[FieldError]:
    """Yield an error for each forbidden change, for example of the first cluster IP or the first IP family."""
    if needs_cluster_ip(new) and needs_cluster_ip(old) and not (is_headless(new) and is_headless(old)):
        yield from _validate_list(new, old, "clusterIPs", "clusterIP")
        yield from _validate_list(new, old, "ipFamilies", "ipFamily")
    if new.get("type") == old.get("type") == "LoadBalancer" and not _same(new, old, "loadBalancerClass"):
        yield errors.invalid("spec.loadBalancerClass", new.get("loadBalancerClass"), _UNCHANGED)
    if needs_health_check(new) and needs_health_check(old) and not _same(new, old, "healthCheckNodePort"):
        yield errors.forbidden("spec.healthCheckNodePort", "field is immutable")


def _keep_cluster_ips(new: Spec, old: Spec) -> None:
    for name in ("clusterIP", "ipFamilies", "ipFamilyPolicy"):
        if not new.get(name) and old.get(name):
            new[name] = old[name]
    if new.get("clusterIP") == old.get("clusterIP"):
        if not new.get("clusterIPs") and old.get("clusterIPs"):
            new["clusterIPs"] = list(old["clusterIPs"])
    elif _same(new, old, "clusterIPs") or not new.get("clusterIPs"):
        new["clusterIPs"] = [new["clusterIP"], *(new.get("clusterIPs") or [])[1:]]


def _keep_node_ports(new: Spec, old: Spec) -> None:
    taken = _node_ports(new)
    by_name = {port.get("name", ""): port.get("nodePort", 0) for port in old.get("ports") or []}
    for port in new.get("ports") or []:
        kept = by_name.get(port.get("name", ""), 0)
        if not port.get("nodePort") and kept and kept not in taken:
            port["nodePort"] = kept
            taken.add(kept)


def _validate_list(new: Spec, old: Spec, name: str, word: str) -> Iterator[FieldError]:
    now, was = new.get(name) or [], old.get(name) or []
    path = f"spec.{name}"
    if was and not now:
        yield errors.invalid(f"{path}[0]", now, f"primary {word} can not be unset")
    for index, (one, other) in enumerate(zip(now, was, strict=False)):
        if one != other and (index == 0 or len(now) == len(was)):
            yield errors.invalid(f"{path}[{index}]", now, _UNCHANGED)
    if len(now) == 1 and len(was) == 2 and new.get("ipFamilyPolicy") != "SingleStack":
        said = f"must be set to 'SingleStack' when releasing the secondary {word}"
        yield errors.invalid("spec.ipFamilyPolicy", new.get("ipFamilyPolicy"), said)


def _node_ports(spec: Spec) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or [] if port.get("nodePort")}


def _same(new: Mapping[str, Any], old: Mapping[str, Any], *fields: str) -> bool:
    return all((new.get(name) or None) == (old.get(name) or None) for name in fields)
