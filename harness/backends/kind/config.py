"""Builds kind's cluster configuration, for the files in `kind-configs/` and for runs. Each node of the topology is a
kind worker. The label `trafficdist.dev/node` contains its name in the topology, because kind chooses node names.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.binaries.versions import Version, parse_version
from harness.errors import UsageError
from harness.model.topology import ZONE_LABEL, Topology

NODE_LABEL = "trafficdist.dev/node"
CONTROL_PLANE, WORKER = "control-plane", "worker"
MODES = ("iptables", "nftables", "ipvs")
WITHOUT_PROXY = "none"  # mode in which kind installs no kube-proxy

_FAMILIES = {("IPv4",): "ipv4", ("IPv6",): "ipv6", ("IPv4", "IPv6"): "dual"}
_TAG = re.compile(r":(v?\d[^:@/]*)(@|$)")
_PATCH = "{{kind: KubeProxyConfiguration, {mode}: {{minSyncPeriod: 100ms}}}}"
"""Lets kube-proxy sync up to ten times a second. The default, once a second, would delay all waits. Without a limit,
the proxies of all nodes, which share the CPUs of one machine, would sync after each of many writes.
"""

_NFTABLES_WITHOUT_GATE = Version(1, 31, 0)  # the first version in which the feature gate is on by default (beta)


@dataclass(frozen=True, slots=True)
class KindConfig:
    """`images` maps node roles ("control-plane" and "worker") to images. Raises `UsageError`."""

    topology: Topology
    families: Sequence[str] = ("IPv4",)
    mode: str = "iptables"
    gates: Mapping[str, bool] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)
    default_cni: bool = True

    def __post_init__(self) -> None:
        if self.mode not in (*MODES, WITHOUT_PROXY):
            raise UsageError(f"kind has no kube-proxy mode {self.mode!r}: expected {', '.join(MODES)}")
        if tuple(sorted(self.families)) not in _FAMILIES:
            raise UsageError(f"IP families {', '.join(self.families)}: expected IPv4, IPv6 or both")
        if unknown := set(self.images) - {CONTROL_PLANE, WORKER}:
            raise UsageError(
                f"kind has no node role {', '.join(sorted(unknown))}: expected {CONTROL_PLANE} or {WORKER}"
            )


def manifest(wanted: KindConfig, *, name: str = "") -> dict[str, Any]:
    """Return a `Cluster` object of `kind.x-k8s.io/v1alpha4`. Without a name, kind names the cluster "kind"."""
    gates = {**required_gates(wanted.mode, wanted.images), **wanted.gates}
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        **({"name": name} if name else {}),
        "networking": {
            "ipFamily": _FAMILIES[tuple(sorted(wanted.families))],
            "kubeProxyMode": wanted.mode,
            **({} if wanted.default_cni else {"disableDefaultCNI": True}),
        },
        **({"featureGates": dict(sorted(gates.items()))} if gates else {}),
        **({} if wanted.mode == WITHOUT_PROXY else {"kubeadmConfigPatches": [_PATCH.format(mode=wanted.mode)]}),
        "nodes": [
            _node(CONTROL_PLANE, wanted.images, {}),
            *(
                _node(WORKER, wanted.images, {NODE_LABEL: node.name, **({ZONE_LABEL: node.zone} if node.zone else {})})
                for node in wanted.topology.nodes
            ),
        ],
    }


def _node(role: str, images: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    image = {"image": images[role]} if role in images else {}
    return {"role": role, **image, **({"labels": dict(labels)} if labels else {})}


def required_gates(mode: str, images: Mapping[str, str]) -> dict[str, bool]:
    """Return the feature gates that kube-proxy in the oldest of these images needs for this mode."""
    versions = [version for image in images.values() if (version := version_of_image(image))]
    return gates_for_mode(mode, min(versions)) if versions else {}


def gates_for_mode(mode: str, version: Version) -> dict[str, bool]:
    return {"NFTablesProxyMode": True} if mode == "nftables" and version < _NFTABLES_WITHOUT_GATE else {}


def version_of_image(image: str) -> Version | None:
    """Return the version in an image's tag, such as 1.30.13 for "kindest/node:v1.30.13@sha256:…", or None."""
    tag = _TAG.search(image)
    return parse_version(tag[1]) if tag else None


def parse_images(text: str) -> dict[str, str]:
    """Parse "IMAGE", "ROLE=IMAGE", or a comma-separated list, in which later entries win. Raises `UsageError`."""
    images: dict[str, str] = {}
    for word in filter(None, text.split(",")):
        role, sign, image = word.partition("=")
        if sign and not image:
            raise UsageError(f"node image {word!r}: expected IMAGE, {CONTROL_PLANE}=IMAGE or {WORKER}=IMAGE")
        images |= {role: image} if sign else {CONTROL_PLANE: word, WORKER: word}
    return images


def node_names(topology: Topology, cluster: str) -> dict[str, str]:
    """Return kind's names for the nodes: `{"a1": "CLUSTER-worker", "a2": "CLUSTER-worker2", …}`."""
    return {
        node.name: f"{cluster}-{WORKER}{number if number > 1 else ''}" for number, node in enumerate(topology.nodes, 1)
    }
