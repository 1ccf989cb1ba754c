"""The agnhost pods of a run. All except host-network clients satisfy the Restricted Pod Security Standard."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.backends.backend import TERMINATION_SECONDS, WantedPod
from harness.errors import UnavailableError
from harness.model.manifests import CONTAINER, TARGET_PORT, Object, has_condition
from harness.model.outcomes import Observation, Reached, Unknown
from harness.netns.addresses import by_family

AGNHOST = "agnhost:2.53@sha256:99c6b4bb4a1e1df3f0b3752168c89358794d02258ebebc26bf21c29399011a85"
REGISTRY = "registry.k8s.io/e2e-test-images"

READY_GATE = "trafficdist.dev/ready"
"""The condition type of the readiness gate. The suite sets the condition."""

VACANT_PORT = 10_280
"""agnhost listens on this port and the next if the harness runs the pod's servers. Probes have higher source ports."""

SEPARATOR = "--"  # separates a pod's name from its namespace in its hostname


@dataclass(frozen=True, slots=True)
class ClientPod:
    """A client pod and the port of its server. The harness cannot open sockets in such a pod."""

    namespace: str
    name: str
    port: int
    on_host: bool = False  # host network, where other clients retransmit SYNs too

    def socket(self, family: int, kind: int, proto: int = 0, /) -> socket.socket:  # noqa: ARG002
        raise UnavailableError(f"pod {self.namespace}/{self.name} is on another machine: no socket can be opened there")


def image(registry: str = "") -> str:
    return f"{(registry or REGISTRY).rstrip('/')}/{AGNHOST}"


def server(wanted: WantedPod, namespace: str, labels: Mapping[str, str], registry: str) -> Object:
    ports: dict[int, list[Object]] = {TARGET_PORT: []}
    for name, number, protocol in wanted.container_ports:
        ports.setdefault(number, []).append({"name": name, "containerPort": number, "protocol": protocol})
    containers = [
        _container(CONTAINER if number == TARGET_PORT else f"{CONTAINER}-{number}", number, number, declared, registry)
        for number, declared in ports.items()
    ]
    return _server(containers, wanted, namespace, labels)


def vacant(wanted: WantedPod, namespace: str, labels: Mapping[str, str], registry: str) -> Object:
    """Return a pod like `server`, but with its ports free for servers of the harness in the pod's netns."""
    declared = [{"name": name, "containerPort": port, "protocol": way} for name, port, way in wanted.container_ports]
    container = _container(CONTAINER, VACANT_PORT, VACANT_PORT + 1, declared, registry)
    del container["readinessProbe"]  # the readiness gate opens once the harness serves the pod
    return _server([container], wanted, namespace, labels)


def _server(containers: Sequence[Object], wanted: WantedPod, namespace: str, labels: Mapping[str, str]) -> Object:
    spec = _spec(containers, wanted.node) | {
        "hostname": hostname(namespace, wanted.name),
        "readinessGates": [{"conditionType": READY_GATE}],
        "terminationGracePeriodSeconds": TERMINATION_SECONDS,
    }
    return _pod(wanted.name, {**(wanted.labels or {}), **labels}, spec)


def hostname(namespace: str, pod: str) -> str:
    """Return a server pod's hostname, which is unique in the run. Raises `UnavailableError` if it is too long."""
    name = f"{pod}{SEPARATOR}{namespace}"
    if len(name) > 63:
        raise UnavailableError(f"{name} is longer than the 63 characters that a hostname may have")
    return name


def identity(answer: str) -> Observation:
    """Return the outcome for an answer: `Reached` "namespace/pod", or `Unknown` for an unknown server."""
    pod, found, namespace = answer.strip().partition(SEPARATOR)
    if not found or not pod or not namespace.startswith("td-"):
        return Unknown(f"an unknown server answered: {answer.strip()[:60]!r}")
    return Reached(f"{namespace}/{pod}")


def client(name: str, node: str, labels: Mapping[str, str], registry: str, *, port: int, host_network: bool) -> Object:
    """Return a client pod. Its server listens on TCP `port` and on UDP `port` + 1."""
    spec = _spec([_container("client", port, port + 1, (), registry)], node) | {"terminationGracePeriodSeconds": 1}
    if host_network:
        spec |= {"hostNetwork": True}
    else:
        spec |= {"hostname": name}
    return _pod(name, labels, spec)


def gate(ready: bool) -> Object:
    condition = {"type": READY_GATE, "status": "True" if ready else "False", "reason": "Scenario"}
    return {"status": {"conditions": [condition]}}


def runs(pod: Object) -> bool:
    """Return whether a pod's containers are ready and the pod has IP addresses. Its readiness gate does not matter."""
    status = pod.get("status") or {}
    return bool(status.get("podIPs")) and has_condition(pod, "ContainersReady")


def addresses(pod: Object) -> dict[str, str]:
    return by_family(each["ip"] for each in (pod.get("status") or {}).get("podIPs") or ())


def _pod(name: str, labels: Mapping[str, str], spec: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": dict(labels)}, "spec": spec}


def _spec(containers: Sequence[Object], node: str) -> Object:
    return {
        "nodeName": node,
        "containers": list(containers),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Always",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
    }


def _container(name: str, http: int, udp: int, declared: Sequence[Object], registry: str) -> Object:
    probe: dict[str, Any] = {"httpGet": {"path": "/healthz", "port": http}, "periodSeconds": 1}
    return {
        "name": name,
        "image": image(registry),
        "args": ["netexec", f"--http-port={http}", f"--udp-port={udp}", f"--delay-shutdown={TERMINATION_SECONDS}"],
        "ports": list(declared),
        "readinessProbe": probe,
        "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
