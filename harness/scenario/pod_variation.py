"""Random variation of a scenario's pods and of the Services that select them. It does not affect expected answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from harness.api.client import Object
from harness.backends.backend import ContainerPorts, WantedPod
from harness.backends.protocols import PodLifecycle
from harness.backends.scenario_backend import ScenarioBackend
from harness.model.abilities import Ability
from harness.model.manifests import TARGET_PORT
from harness.variation import axes
from harness.variation.axes import DrawnValues
from harness.variation.objects import LabelVariation

FORMER = ("former-1", "former-2")  # names of pods that had the labels of a scenario's pod, and lost them

_NAMES = {"TCP": "drawn-tcp", "UDP": "drawn-udp"}  # names of target ports by protocol
_FIRST_NUMBER, _NUMBERS = 8091, 3  # the first number, and the count, of random target ports
_MOST = 2  # number of pods whose labels change; a scenario may have hundreds of pods


@dataclass(slots=True)
class PodVariation:
    backend: ScenarioBackend
    namespace: str
    draw: DrawnValues
    labels: LabelVariation = field(init=False)
    _numbers: dict[str, int] = field(default_factory=dict)  # number of the named target ports of each pod
    _final: dict[str, Mapping[str, str]] = field(default_factory=dict)  # final labels of pods that have others
    _changed: int = 0
    _has_former: bool = False
    _hosts: set[str] = field(default_factory=set)  # nodes with a host-network pod

    def __post_init__(self) -> None:
        self.labels = LabelVariation(self.draw)

    def service(self, obj: Object) -> Object:
        """Return a Service with random variation of its selector and target ports, if it selects pods."""
        spec = obj["spec"]
        if not spec.get("selector"):
            return obj
        ports = list(spec["ports"])
        for number, each in enumerate(ports if self.draw[axes.TARGETS] != "number" else ()):
            if each["targetPort"] == TARGET_PORT and each["protocol"] in _NAMES:
                ports[number] = {**each, "targetPort": _NAMES[each["protocol"]]}
        return {**obj, "spec": {**spec, "selector": self.labels.of(spec["selector"]), "ports": ports}}

    def wanted(self, pod: WantedPod, *, runs: bool) -> WantedPod:
        """Return a pod with random variation. `runs` is false if it exists in the API only."""
        if pod.labels:
            pod = self._selected(pod)
        free = runs and not pod.tells_port and pod.node not in self._hosts
        if free and self.draw[axes.PODS] == "host" and Ability.HOST_NETWORK in self.backend.booted.abilities:
            pod = replace(pod, host_network=True)
        if pod.host_network:
            self._hosts.add(pod.node)
        return pod

    def _selected(self, pod: WantedPod) -> WantedPod:
        labels = {key: str(value) for key, value in self.labels.of(pod.labels or {}).items()}
        if (before := self.labels.before(labels)) and self._changed < _MOST:
            self._changed += 1
            self._final[pod.name] = labels
            labels = {key: str(value) for key, value in before.items()}
        ports = (*pod.container_ports, *self._named_ports(pod.name))
        return replace(pod, labels=labels, container_ports=ports, sidecar=self.draw[axes.PODS] == "sidecars")

    def _named_ports(self, pod: str) -> ContainerPorts:
        match self.draw[axes.TARGETS]:
            case "named":
                self._numbers[pod] = _FIRST_NUMBER + len(self._numbers) % _NUMBERS
            case "lacking":
                self._numbers[pod] = TARGET_PORT
            case _:
                return ()
        return [(name, self._numbers[pod], protocol) for protocol, name in _NAMES.items()]

    def after(self, pod: WantedPod) -> None:
        """Perform random events after pod creation: set final labels, and create pods that later lose these labels."""
        if (labels := self._final.pop(pod.name, None)) is not None:
            self.backend.settle()
            self.backend.api.patch("pods", self.namespace, pod.name, {"metadata": {"labels": dict(labels)}})
        if self.draw[axes.LABELS] == "removed" and pod.labels and not self._has_former:
            self._has_former = True
            self._create_former(pod)

    def _create_former(self, pod: WantedPod) -> None:
        pods = self.backend.part(PodLifecycle)
        for name, value in zip(FORMER, ("drawn-other", None), strict=True):
            pods.create_pod(self.namespace, replace(pod, name=name, ready=False, host_network=False))
            self.backend.settle()
            patch = {"metadata": {"labels": dict.fromkeys(pod.labels or {}, value)}}
            self.backend.api.patch("pods", self.namespace, name, patch)

    def wrong_port(self, service: Object, endpoint_slice: Object, pod: str) -> str:
        """Return a text like "at port 1 instead of 2" if a slice has a wrong number for a named target port, or ""."""
        ports = service["spec"].get("ports") or ()
        named = {each.get("name") or "" for each in ports if each["targetPort"] in _NAMES.values()}
        for port in endpoint_slice.get("ports") or ():
            right = self._numbers.get(pod, port.get("port"))
            if (port.get("name") or "") in named and port.get("port") != right:
                return f"at port {port.get('port')} instead of {right}"
        return ""
