"""Objects for running kube-proxies of different releases on different nodes.

kubeadm runs kube-proxy as one DaemonSet, which has only one template. So a proxy of another release is a single pod
with its release's ConfigMap, and kubeadm's DaemonSet excludes the pod's node. The node affinity selects nodes by the
field `metadata.name`, not by a label, because proxies and controllers watch labels of nodes and a change would disturb
them.

While nodes are excluded, a DaemonSet replaces pods only when they are deleted (`OnDelete`). Otherwise, a change of the
affinity would restart the proxies on all other nodes.

The functions are pure. They return changed copies of objects.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence

import yaml

from harness.api.client import Object
from harness.backends.kind.static_pods import image_at

NAME, NAMESPACE = "kube-proxy", "kube-system"
RELEASE_LABEL = "trafficdist.dev/kube-proxy"
CONFIGURATION = "config.conf"  # kubeadm's key in the ConfigMap


def variant_name(tag: str, gates: Mapping[str, bool]) -> str:
    """Return the name of the ConfigMap of a release. Equal releases have equal names."""
    digest = hashlib.sha256(repr((tag, sorted(gates.items()))).encode()).hexdigest()
    return f"{NAME}-{tag.replace('.', '-')}-{digest[:6]}"


def excluding(daemon_set: Object, nodes: Sequence[str]) -> Object:
    """Return a JSON merge patch that makes a DaemonSet exclude these nodes."""
    before = daemon_set["spec"]["template"]["spec"].get("affinity") or {}
    required = (before.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    # The API allows exactly one value.
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in sorted(nodes)]
    terms = [
        {**each, "matchFields": [*(each.get("matchFields") or ()), *fields]}
        for each in required.get("nodeSelectorTerms") or [{}]
    ]
    of_nodes = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = {**before, "nodeAffinity": of_nodes} if nodes else before or None
    strategy = {"type": "OnDelete", "rollingUpdate": None}
    return {"spec": {"updateStrategy": strategy, "template": {"spec": {"affinity": affinity}}}}


def restoring(daemon_set: Object) -> Object:
    """Return a JSON merge patch that reverts the changes to a DaemonSet."""
    strategy: Object = daemon_set["spec"].get("updateStrategy") or {"type": "RollingUpdate"}
    affinity = daemon_set["spec"]["template"]["spec"].get("affinity")
    return {"spec": {"updateStrategy": strategy, "template": {"spec": {"affinity": affinity}}}}


def variant(daemon_set: Object, tag: str, gates: Mapping[str, bool], node: str) -> Object:
    """Return a copy of kubeadm's kube-proxy pod for this node, with image tag `tag` and its release's configuration.

    kubeadm's DaemonSet does not adopt the pod, because the pod has another label.
    """
    name = variant_name(tag, gates)
    spec = copy.deepcopy(daemon_set["spec"]["template"]["spec"])
    spec["containers"][0]["image"] = image_at(spec["containers"][0]["image"], tag)
    for volume in spec["volumes"]:
        if volume.get("configMap", {}).get("name") == NAME:
            volume["configMap"]["name"] = name
    return {"metadata": {"name": f"{name}-{node}", "labels": {RELEASE_LABEL: name}}, "spec": {**spec, "nodeName": node}}


def variant_configuration(config_map: Object, tag: str, gates: Mapping[str, bool]) -> Object:
    """Return a copy of kubeadm's ConfigMap with exactly these feature gates, named after the release."""
    name = variant_name(tag, gates)
    data = dict(config_map["data"])
    configuration = yaml.safe_load(data[CONFIGURATION])
    configuration["featureGates"] = dict(gates)
    data[CONFIGURATION] = yaml.safe_dump(configuration, sort_keys=False)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {RELEASE_LABEL: name}},
        "data": data,
    }


def mode_of(config_map: Object) -> str:
    """Return the mode in the ConfigMap, or "iptables" if it specifies none."""
    return str(yaml.safe_load(config_map["data"][CONFIGURATION]).get("mode") or "iptables")
