"""Compute a pod's status with the conditions and reasons of Kubernetes 1.37 (pkg/kubelet/status)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.model.manifests import Object


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of a container. `state` has a single key: "waiting", "running" or "terminated"."""

    name: str
    image: str
    state: Mapping[str, Any]
    ready: bool = False
    restarts: int = 0
    last: Mapping[str, Any] = field(default_factory=dict)
    container_id: str = ""
    is_sidecar: bool = False
    """True for a sidecar: an init container with restartPolicy Always."""

    @property
    def runs(self) -> bool:
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """The exit code of a container that will not be restarted, or None."""
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])

    def manifest(self) -> Object:
        return {
            "name": self.name,
            "image": self.image,
            "imageID": self.image if self.container_id else "",
            "containerID": self.container_id,
            "ready": self.ready,
            "started": self.runs,
            "restartCount": self.restarts,
            "state": dict(self.state),
            "lastState": dict(self.last),
        }


@dataclass(frozen=True, slots=True)
class PodAddresses:
    """The addresses of a pod and of its node, with the primary IP family first, and the pod's start time."""

    pod: Sequence[str]
    node: Sequence[str]
    since: str


def status_of(
    pod: Object,
    place: PodAddresses,
    containers: Sequence[ContainerState],
    *,
    init: Sequence[ContainerState] = (),
    before: Object,
    now: str,
) -> Object:
    """Return a pod's status. `before` is the previous status ({} at first). Unchanged conditions keep their times."""
    failed = any(each.exit_code for each in init if not each.is_sidecar)
    phase = "Failed" if failed else phase_of(containers)
    conditions = _conditions(pod, phase, [*(each for each in init if each.is_sidecar), *containers], _initialized(init))
    ips = [{"ip": ip} for ip in place.pod]
    return {
        "phase": phase,
        "conditions": _timed(conditions, before.get("conditions") or [], now),
        "hostIP": place.node[0],
        "hostIPs": [{"ip": ip} for ip in place.node],
        **({"podIP": ips[0]["ip"], "podIPs": ips} if ips else {}),
        "startTime": place.since,
        **({"initContainerStatuses": [_of_init(each) for each in init]} if init else {}),
        "containerStatuses": [each.manifest() for each in containers],
    }


def _of_init(container: ContainerState) -> Object:
    """An init container that has succeeded is reported as ready."""
    succeeded = not container.is_sidecar and container.exit_code == 0
    return {**container.manifest(), **({"ready": True} if succeeded else {})}


def _initialized(init: Sequence[ContainerState]) -> Object:
    left = [each.name for each in init if not (each.runs if each.is_sidecar else each.exit_code == 0)]
    if not left:
        return {"status": "True"}
    said = f"containers with incomplete status: [{' '.join(left)}]"
    return {"status": "False", "reason": "ContainersNotInitialized", "message": said}


def phase_of(containers: Sequence[ContainerState]) -> str:
    codes = [each.exit_code for each in containers]
    if all(code is not None for code in codes):
        return "Failed" if any(codes) else "Succeeded"
    if any(not each.runs and not each.container_id for each in containers):
        return "Pending"
    return "Running"


def _conditions(pod: Object, phase: str, containers: Sequence[ContainerState], initialized: Object) -> list[Object]:
    all_ready, ready = _containers_ready(phase, containers), _ready(pod, phase, containers)
    return [
        {"type": "PodReadyToStartContainers", "status": "False" if phase in ("Succeeded", "Failed") else "True"},
        {"type": "Initialized", **initialized},
        {"type": "Ready", **ready},
        {"type": "ContainersReady", **all_ready},
        {"type": "PodScheduled", "status": "True"},
    ]


def _containers_ready(phase: str, containers: Sequence[ContainerState]) -> Object:
    if phase == "Succeeded":
        return {"status": "False", "reason": "PodCompleted"}
    if phase == "Failed":
        return {"status": "False", "reason": "PodFailed"}
    unready = [each.name for each in containers if not each.ready]
    if unready:
        said = f"containers with unready status: [{' '.join(unready)}]"
        return {"status": "False", "reason": "ContainersNotReady", "message": said}
    return {"status": "True"}


def _ready(pod: Object, phase: str, containers: Sequence[ContainerState]) -> Object:
    all_ready = _containers_ready(phase, containers)
    if all_ready["status"] == "False":
        return all_ready
    have = {each["type"]: each["status"] for each in (pod.get("status") or {}).get("conditions") or ()}
    for gate in (each["conditionType"] for each in pod["spec"].get("readinessGates") or ()):
        if have.get(gate) != "True":
            said = (
                f'the status of pod readiness gate "{gate}" is not "True", but {have[gate]}'
                if gate in have
                else f'corresponding condition of pod readiness gate "{gate}" does not exist.'
            )
            return {"status": "False", "reason": "ReadinessGatesNotReady", "message": said}
    return {"status": "True"}


def _timed(conditions: Sequence[Object], before: Sequence[Object], now: str) -> list[Object]:
    """Set `lastTransitionTime`. The null `reason` and `message` remove stored values when the status is patched."""
    known = {each["type"]: each for each in before}
    timed = []
    for each in conditions:
        last = known.get(each["type"])
        same = last is not None and last["status"] == each["status"]
        since = last["lastTransitionTime"] if last is not None and same else now
        timed.append({"reason": None, "message": None, **each, "lastTransitionTime": since})
    return timed
