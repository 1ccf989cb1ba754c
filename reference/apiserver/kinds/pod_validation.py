"""Validation of the pod fields that routing depends on."""

from collections.abc import Iterator, Mapping
from typing import Any

from reference.apiserver.kinds import addresses, errors, names
from reference.apiserver.kinds.errors import FieldError

RESTART_POLICIES = ("Always", "Never", "OnFailure")
PHASES = ("Failed", "Pending", "Running", "Succeeded", "Unknown")
_MUTABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "nodeName", "schedulingGates")

Spec = Mapping[str, Any]


def validate_spec(spec: Spec) -> Iterator[FieldError]:
    if not spec.get("containers"):
        yield errors.required("spec.containers")
    seen: set[str] = set()
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or []):
            path = f"spec.{group}[{index}]"
            yield from _validate_container(container, path, seen)
            yield from _validate_ports(container, path)
    if spec.get("nodeName"):
        yield from errors.violations("spec.nodeName", spec["nodeName"], names.dns_subdomain)
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            yield from errors.violations(f"spec.{name}", spec[name], names.dns_label)
    if spec.get("restartPolicy") not in RESTART_POLICIES:
        yield errors.not_supported("spec.restartPolicy", spec.get("restartPolicy") or "", RESTART_POLICIES)
    grace = spec.get("terminationGracePeriodSeconds") or 0
    if grace < 0:
        yield errors.invalid("spec.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")


def validate_spec_update(new: Spec, old: Spec) -> Iterator[FieldError]:
    """Refuse changes of a pod's spec, except a few fields and images. A node can be assigned only once."""
    if old.get("nodeName") and new.get("nodeName") != old["nodeName"]:
        yield errors.forbidden("spec.nodeName", "pod updates may not change the node of a scheduled pod")
    if _fixed(new) != _fixed(old):
        said = (
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        yield errors.forbidden("spec", said)


def validate_status(status: Mapping[str, Any]) -> Iterator[FieldError]:
    """Validate the phase. Also check that there is at most one address for each IP family."""
    if status.get("phase") and status["phase"] not in PHASES:
        yield errors.not_supported("status.phase", status["phase"], PHASES)
    for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        yield from _validate_addresses(status, one, many)


def _validate_container(container: Mapping[str, Any], path: str, seen: set[str]) -> Iterator[FieldError]:
    name = container.get("name") or ""
    if not name:
        yield errors.required(f"{path}.name")
    else:
        yield from errors.violations(f"{path}.name", name, names.dns_label)
        yield from errors.unique(f"{path}.name", name, seen)
    if not container.get("image"):
        yield errors.required(f"{path}.image")


def _validate_ports(container: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, port in enumerate(container.get("ports") or []):
        at, name = f"{path}.ports[{index}]", port.get("name") or ""
        if name:
            yield from errors.violations(f"{at}.name", name, names.port_name)
            yield from errors.unique(f"{at}.name", name, seen)
        number = port.get("containerPort") or 0
        if not number:
            yield errors.required(f"{at}.containerPort")
        else:
            yield from addresses.validate_port(number, f"{at}.containerPort")
        yield from errors.choice(f"{at}.protocol", port.get("protocol") or "", addresses.PROTOCOLS)
        if port.get("hostPort"):
            yield from addresses.validate_port(port["hostPort"], f"{at}.hostPort")


def _validate_addresses(status: Mapping[str, Any], one: str, many: str) -> Iterator[FieldError]:
    every = [each.get("ip", "") for each in status.get(many) or []]
    path = f"status.{many}"
    wrong = [error for index, each in enumerate(every) for error in addresses.validate_ip(each, f"{path}[{index}]")]
    yield from wrong
    if wrong or not every:
        return
    if status.get(one) != every[0]:
        yield errors.invalid(f"{path}[0].ip", every[0], f"must be equal to `{one}`")
    families = [addresses.family_of(each) for each in every]
    if len(set(families)) < len(families):
        yield errors.invalid(path, every, "may specify no more than one IP for each IP family")


def _fixed(spec: Spec) -> dict[str, Any]:
    rest = {name: value for name, value in spec.items() if name not in _MUTABLE}
    for group in ("containers", "initContainers"):
        rest[group] = [{**container, "image": ""} for container in spec.get(group) or []]
    return rest
