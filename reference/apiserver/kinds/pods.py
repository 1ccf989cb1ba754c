"""Pods. Clients set their nodes and status. Of a container's fields, only the name, image and ports are validated."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from reference.apiserver.kinds import addresses, columns, errors, metadata, names
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import (
    ANY,
    BOOLEAN,
    CONDITION,
    INTEGER,
    OTHERS,
    QUANTITIES,
    STRING,
    STRING_MAP,
    TIME,
    Shape,
    fields,
    of_object,
)
from reference.apiserver.kinds.strategy import Resource, Strategy
from reference.client import Object
from reference.features import Features

DEFAULT_GRACE_SECONDS = 30
RESTART_POLICIES = ("Always", "Never", "OnFailure")
PHASES = ("Failed", "Pending", "Running", "Succeeded", "Unknown")
_MUTABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "nodeName", "schedulingGates")

_NAMED: Shape = [{"name": STRING, OTHERS: ANY}]
_CONTAINER: Shape = {
    "name": STRING,
    "image": STRING,
    "args": [STRING],
    "command": [STRING],
    "env": _NAMED,
    "resources": {"limits": QUANTITIES, "requests": QUANTITIES, "claims": _NAMED, OTHERS: ANY},
    "volumeDevices": [{"devicePath": STRING, OTHERS: ANY}],
    "volumeMounts": [{"mountPath": STRING, OTHERS: ANY}],
    "ports": [{"name": STRING, "containerPort": INTEGER, "hostPort": INTEGER, "hostIP": STRING, "protocol": STRING}],
    OTHERS: ANY,
}
_SPEC: Shape = {
    **fields([_CONTAINER], "containers", "initContainers", "ephemeralContainers"),
    **fields(_NAMED, "imagePullSecrets", "resourceClaims", "schedulingGates", "volumes"),
    "hostAliases": [{"ip": STRING, "hostnames": [STRING]}],
    "topologySpreadConstraints": [{"topologyKey": STRING, "whenUnsatisfiable": STRING, OTHERS: ANY}],
    **fields(STRING, "nodeName", "hostname", "subdomain", "restartPolicy", "serviceAccountName"),
    "hostNetwork": BOOLEAN,
    "terminationGracePeriodSeconds": INTEGER,
    "nodeSelector": STRING_MAP,
    "tolerations": [{OTHERS: ANY}],
    OTHERS: ANY,
}
_STATE: Shape = {
    "running": {"startedAt": TIME, OTHERS: ANY},
    "terminated": {
        **fields(INTEGER, "exitCode", "signal"),
        **fields(TIME, "startedAt", "finishedAt"),
        "reason": STRING,
        OTHERS: ANY,
    },
    "waiting": {"message": STRING, "reason": STRING},
}
_CONTAINER_STATUSES: Shape = [
    {"name": STRING, "ready": BOOLEAN, "restartCount": INTEGER, "state": _STATE, "lastState": _STATE, OTHERS: ANY}
]
_STATUS: Shape = {
    **fields(STRING, "phase", "reason", "podIP", "hostIP"),
    "startTime": TIME,
    **fields([{"ip": STRING}], "podIPs", "hostIPs"),
    "conditions": [CONDITION],
    **fields(_CONTAINER_STATUSES, "containerStatuses", "initContainerStatuses"),
    OTHERS: ANY,
}

_FINAL = {"Succeeded", "Failed"}


def _field(part: str, name: str, missing: str = "") -> Any:
    return lambda pod: str(pod.get(part, {}).get(name) or missing)


def _shown_ready(pod: Object) -> str:
    count = sum(bool(each.get("ready")) for each in _statuses(pod))
    return f"{count}/{len(pod['spec'].get('containers') or [])}"


def _shown_status(pod: Object) -> str:
    """Return the STATUS cell: the phase, the reason why a container is waiting or has ended, or "Terminating"."""
    state = pod.get("status", {})
    word = state.get("reason") or state.get("phase") or ""
    for each in reversed(_statuses(pod)):
        word = _why(each.get("state") or {}) or word
    if word == "Completed" and any("running" in (each.get("state") or {}) for each in _statuses(pod)):
        word = "Running" if _is_ready(state) else "NotReady"
    if pod["metadata"].get("deletionTimestamp") and state.get("phase") not in _FINAL:
        return "Unknown" if state.get("reason") == "NodeLost" else "Terminating"
    return str(word)


def _shown_restarts(pod: Object) -> str:
    """Return the number of restarts and the age of the last restart: `2 (5m ago)`."""
    every = _statuses(pod)
    count = sum(int(each.get("restartCount", 0)) for each in every)
    ends = [((each.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for each in every]
    last = max((each for each in ends if each), default=None)
    return f"{count} ({columns.age(last)} ago)" if count and last else str(count)


def _statuses(pod: Object) -> list[Mapping[str, Any]]:
    return pod.get("status", {}).get("containerStatuses") or []


def _why(state: Mapping[str, Any]) -> str:
    waiting, ended = state.get("waiting"), state.get("terminated")
    if waiting and waiting.get("reason"):
        return str(waiting["reason"])
    if not ended:
        return ""
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _is_ready(state: Mapping[str, Any]) -> bool:
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in state.get("conditions") or [])


def _address(pod: Object) -> str:
    every = pod.get("status", {}).get("podIPs") or [{}]
    return str(every[0].get("ip") or pod.get("status", {}).get("podIP") or columns.NONE)


def _gates(pod: Object) -> str:
    gates = pod["spec"].get("readinessGates") or []
    if not gates:
        return columns.NONE
    conditions = {each.get("type"): each.get("status") for each in pod.get("status", {}).get("conditions") or []}
    return f"{sum(conditions.get(gate.get('conditionType')) == 'True' for gate in gates)}/{len(gates)}"


_TABLE = (
    columns.NAME,
    columns.text("Ready", "Number of ready containers and number of containers.", _shown_ready),
    columns.text("Status", "State of the pod.", _shown_status),
    columns.text("Restarts", "Number of container restarts.", _shown_restarts),
    columns.AGE,
    columns.text("IP", "Address of the pod.", _address, wide=True),
    columns.text("Node", "Node that the pod runs on.", _field("spec", "nodeName", columns.NONE), wide=True),
    columns.text(
        "Nominated Node",
        "Node on which other pods are evicted for this pod.",
        _field("status", "nominatedNodeName", columns.NONE),
        wide=True,
    ),
    columns.text(
        "Readiness Gates", "Number of readiness gates that are met, and number of readiness gates.", _gates, wide=True
    ),
)


_SELECTABLE_IN_SPEC = ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")


class Pods(Strategy):
    """The strategy of Pods. A deleted pod on a node stays stored until the kubelet deletes it again."""

    resource = Resource("", "v1", "Pod", "pods", "pod", ("po",), has_status=True, categories=("all",))
    shape = of_object(spec=_SPEC, status=_STATUS)
    kept_by_status = (("spec",), ("metadata", "ownerReferences"))
    grace_seconds = DEFAULT_GRACE_SECONDS
    generation_since = 33  # KEP-5067
    table = _TABLE
    selectable_fields: ClassVar = {
        **{f"spec.{name}": _field("spec", name) for name in _SELECTABLE_IN_SPEC},
        **{f"status.{name}": _field("status", name) for name in ("phase", "podIP", "nominatedNodeName")},
        "spec.hostNetwork": lambda obj: str(bool(obj.get("spec", {}).get("hostNetwork"))).lower(),
    }

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        for name, value in _DEFAULTS.items():
            if spec.get(name) in {None, ""}:
                spec[name] = value
        spec.setdefault("securityContext", {})
        for container in (spec.get("containers") or []) + (spec.get("initContainers") or []):
            _default_container(container, host_network=bool(spec.get("hostNetwork")))
        _default_addresses(obj.get("status") or {})

    def prepare_for_create(self, obj: Object, features: Features) -> None:
        obj["status"] = {"phase": "Pending"}

    def prepare_for_status_update(self, new: Object, old: Object) -> None:
        super().prepare_for_status_update(new, old)
        _pair_addresses(new.setdefault("status", {}), old.get("status") or {})
        _default_addresses(new["status"])

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return [*super().validate(obj, features), *_validate_spec(obj.get("spec") or {})]

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found = metadata.validate_update(new, old) + super().validate(new, features)
        if new["spec"] == old["spec"]:  # the stored spec was valid when this server wrote it
            return found
        update = _validate_spec_update(new["spec"], old["spec"])
        return [*found, *_validate_spec(new["spec"]), *update]

    def validate_status_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        status = _validate_status(new.get("status") or {})
        return [*super().validate_status_update(new, old, features), *status]


_DEFAULTS = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": DEFAULT_GRACE_SECONDS,
    "enableServiceLinks": True,
}


def _default_container(container: Object, *, host_network: bool) -> None:
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition(":")[2]
    container.setdefault("imagePullPolicy", "Always" if tag in {"", "latest"} and "@" not in image else "IfNotPresent")
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or []:
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if host_network and not port.get("hostPort") and port.get("containerPort"):
            port["hostPort"] = port["containerPort"]


def _pair_addresses(new: Object, old: Object) -> None:
    """If a client changes only `podIP` or only `podIPs`, update the other field. Do the same for host IPs."""
    for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        changed_one = one in new and new[one] != old.get(one)
        changed_many = many in new and new[many] != old.get(many)
        if changed_one and not changed_many:
            new.pop(many, None)
        elif changed_many and not changed_one:
            new.pop(one, None)


def _default_addresses(status: Object) -> None:
    for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        if status.get(one) and not status.get(many):
            status[many] = [{"ip": status[one]}]
        elif status.get(many) and not status.get(one):
            status[one] = status[many][0].get("ip", "")


def _validate_spec(spec: Mapping[str, Any]) -> Iterator[FieldError]:
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


def _validate_spec_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldError]:
    if old.get("nodeName") and new.get("nodeName") != old["nodeName"]:
        yield errors.forbidden("spec.nodeName", "pod updates may not change the node of a scheduled pod")
    if _fixed(new) != _fixed(old):
        said = (
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        yield errors.forbidden("spec", said)


def _validate_status(status: Mapping[str, Any]) -> Iterator[FieldError]:
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


def _fixed(spec: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in spec.items() if name not in _MUTABLE}
    for group in ("containers", "initContainers"):
        rest[group] = [{**container, "image": ""} for container in spec.get(group) or []]
    return rest
