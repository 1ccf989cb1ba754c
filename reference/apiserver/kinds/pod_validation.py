"""Validation of the pod fields that routing depends on."""

from collections.abc import Mapping
from typing import Any

from reference.apiserver.kinds import addresses, errors, names, ports
from reference.apiserver.kinds.errors import FieldError

RESTART_POLICIES = ("Always", "Never", "OnFailure")
PHASES = ("Failed", "Pending", "Running", "Succeeded", "Unknown")
_MUTABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "nodeName", "schedulingGates")

Spec = Mapping[str, Any]


def validate_spec(spec: Spec) -> list[FieldError]:
    containers = spec.get("containers") or []
    found = [] if containers else [errors.required("spec.containers")]
    seen: set[str] = set()
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or []):
            path = f"spec.{group}[{index}]"
            found += _validate_container(container, path, seen) + _validate_ports(container, path)
    if spec.get("nodeName"):
        found += [
            errors.invalid("spec.nodeName", spec["nodeName"], each) for each in names.dns_subdomain(spec["nodeName"])
        ]
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            found += [errors.invalid(f"spec.{name}", spec[name], each) for each in names.dns_label(spec[name])]
    if spec.get("restartPolicy") not in RESTART_POLICIES:
        found.append(errors.not_supported("spec.restartPolicy", spec.get("restartPolicy") or "", RESTART_POLICIES))
    grace = spec.get("terminationGracePeriodSeconds") or 0
    if grace < 0:
        said = "must be greater than or equal to 0"
        found.append(errors.invalid("spec.terminationGracePeriodSeconds", grace, said))
    return found


def validate_spec_update(new: Spec, old: Spec) -> list[FieldError]:
    """Refuse changes of a pod's spec, except a few fields and images. A node can be assigned only once."""
    found: list[FieldError] = []
    if old.get("nodeName") and new.get("nodeName") != old["nodeName"]:
        found.append(errors.forbidden("spec.nodeName", "pod updates may not change the node of a scheduled pod"))
    if _fixed(new) != _fixed(old):
        said = (
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        found.append(errors.forbidden("spec", said))
    return found


def validate_status(status: Mapping[str, Any]) -> list[FieldError]:
    """Validate the phase. Also check that there is at most one address for each IP family."""
    found: list[FieldError] = []
    if status.get("phase") and status["phase"] not in PHASES:
        found.append(errors.not_supported("status.phase", status["phase"], PHASES))
    for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        found += _validate_addresses(status, one, many)
    return found


def _validate_container(container: Mapping[str, Any], path: str, seen: set[str]) -> list[FieldError]:
    name, found = container.get("name") or "", []
    if not name:
        found.append(errors.required(f"{path}.name"))
    else:
        found += [errors.invalid(f"{path}.name", name, each) for each in names.dns_label(name)]
        if name in seen:
            found.append(errors.duplicate(f"{path}.name", name))
        seen.add(name)
    if not container.get("image"):
        found.append(errors.required(f"{path}.image"))
    return found


def _validate_ports(container: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(container.get("ports") or []):
        at, name = f"{path}.ports[{index}]", port.get("name") or ""
        if name:
            found += [errors.invalid(f"{at}.name", name, each) for each in names.port_name(name)]
            if name in seen:
                found.append(errors.duplicate(f"{at}.name", name))
            seen.add(name)
        number = port.get("containerPort") or 0
        if not number:
            found.append(errors.required(f"{at}.containerPort"))
        else:
            found += ports.validate_number(number, f"{at}.containerPort")
        found += ports.validate_protocol(port.get("protocol") or "", f"{at}.protocol")
        if port.get("hostPort"):
            found += ports.validate_number(port["hostPort"], f"{at}.hostPort")
    return found


def _validate_addresses(status: Mapping[str, Any], one: str, many: str) -> list[FieldError]:
    every = [each.get("ip", "") for each in status.get(many) or []]
    path = f"status.{many}"
    found: list[FieldError] = []
    for index, address in enumerate(every):
        found += addresses.validate_ip(address, f"{path}[{index}]")
    if found or not every:
        return found
    if status.get(one) != every[0]:
        found.append(errors.invalid(f"{path}[0].ip", every[0], f"must be equal to `{one}`"))
    families = [addresses.family_of(each) for each in every]
    if len(set(families)) < len(families):
        said = "may specify no more than one IP for each IP family"
        found.append(errors.invalid(path, every, said))
    return found


def _fixed(spec: Spec) -> dict[str, Any]:
    rest = {name: value for name, value in spec.items() if name not in _MUTABLE}
    for group in ("containers", "initContainers"):
        rest[group] = [{**container, "image": ""} for container in spec.get(group) or []]
    return rest
