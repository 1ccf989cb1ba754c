"""Programs that may implement Services on nodes, for `doctor` and `explain`. See docs/implementation-differences.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Reads = Literal["all", "zone", "field", "none", ""]
"""The hints that a program follows: "all" (as kube-proxy does), "zone", "field" (zone hints, but only for Services with
trafficDistribution; PreferSameNode selects endpoints on the client's node, or else any endpoint), "none", or "" if the
hints depend on the program's version or configuration.
"""


@dataclass(frozen=True, slots=True)
class ServiceProxy:
    """A program that runs on nodes. `when` is "always", a condition, or "" if the program never implements Services."""

    name: str
    workload: str
    labels: tuple[str, ...] = ()
    when: str = ""
    reads: Reads = ""
    does: str = ""


SERVICE_PROXIES = (
    ServiceProxy("kube-proxy", "kube-proxy", ("k8s-app=kube-proxy", "component=kube-proxy"), "always", "all"),
    ServiceProxy("GKE Dataplane V2", "anetd", (), "serves Services itself", "",
                 "is a build of Cilium, and its version decides whether it uses hints"),
    ServiceProxy("Cilium", "cilium", ("k8s-app=cilium", "app.kubernetes.io/name=cilium-agent"),
                 "serves Services itself if kube-proxy replacement is enabled", "",
                 "follows zone hints only with loadBalancer.serviceTopology=true (ConfigMap cilium-config, key "
                 "enable-service-topology), and reads no node hints"),
    ServiceProxy("Calico eBPF", "calico-node", ("k8s-app=calico-node",), "serves Services itself in eBPF mode", "",
                 "follows hints from 3.31.5, and reads the zone of its node at its start"),
    ServiceProxy("", "canal"),
    ServiceProxy("kube-router", "kube-router", ("k8s-app=kube-router",),
                 "serves Services itself with --run-service-proxy", "none", "reads no hints"),
    ServiceProxy("Antrea", "antrea-agent", ("component=antrea-agent",), "serves Services itself (AntreaProxy)", "zone",
                 "follows zone hints, but node hints only behind a gate"),
    ServiceProxy("OVN-Kubernetes", "ovnkube-node", ("app=ovnkube-node",), "serves Services itself", "none",
                 "reads no hints"),
    ServiceProxy("Kube-OVN", "kube-ovn", (), "serves Services itself if its load balancer is enabled", "",
                 "is not examined in docs/implementation-differences.md"),
    *(ServiceProxy("", each) for each in ("kindnet", "kube-flannel", "aws-node", "weave-net")),
)  # fmt: skip

SELECTORS = (
    "k8s-app in (kube-proxy, cilium, calico-node, kube-router)",
    "component in (kube-proxy, antrea-agent)",
    "app=ovnkube-node",
)


_BY_LABEL = {label: each for each in SERVICE_PROXIES for label in each.labels}


def recognise(workload: str, labels: Mapping[str, str] | None = None) -> ServiceProxy | None:
    by_name = next((each for each in SERVICE_PROXIES if each.workload in workload), None)
    pairs = (f"{key}={value}" for key, value in (labels or {}).items())
    return by_name or next((_BY_LABEL[each] for each in pairs if each in _BY_LABEL), None)
