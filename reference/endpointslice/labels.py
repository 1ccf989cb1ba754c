"""The labels and annotations by which EndpointSlices, Services and Nodes refer to each other.

They are the only link between a slice and its Service that other readers (kube-proxy, kubectl, users) rely on, so they
stand in one place. Source: facts of `k8s.io/api/discovery/v1` and `k8s.io/api/core/v1`.
"""

from __future__ import annotations

from reference.client import Object

CONTROLLER = "endpointslice-controller.k8s.io"

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
HEADLESS = "service.kubernetes.io/headless"
ZONE = "topology.kubernetes.io/zone"

TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"
TOPOLOGY_AWARE_HINTS = "service.kubernetes.io/topology-aware-hints"

RESERVED = frozenset({MANAGED_BY, SERVICE_NAME, HEADLESS})


def slice_labels(service: Object) -> dict[str, str]:
    """The labels of every slice of `service`: the Service's own, except reserved ones, and the reserved ones."""
    own: dict[str, str] = service["metadata"].get("labels") or {}
    labels = {key: value for key, value in own.items() if key not in RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    labels[SERVICE_NAME] = service["metadata"]["name"]
    labels[MANAGED_BY] = CONTROLLER
    return labels


def is_headless(service: Object) -> bool:
    """Return whether the Service has no cluster IP (also one that was not given yet, as in Kubernetes)."""
    return service["spec"].get("clusterIP", "") in {"", "None"}


def is_managed(endpoint_slice: Object) -> bool:
    """Return whether this controller manages the slice; others belong to somebody else and stay as they are."""
    labels = endpoint_slice["metadata"].get("labels") or {}
    return bool(labels.get(MANAGED_BY) == CONTROLLER)


def service_name(endpoint_slice: Object) -> str:
    """The name of the Service that the slice belongs to; empty if it names none."""
    return str((endpoint_slice["metadata"].get("labels") or {}).get(SERVICE_NAME, ""))


def node_zone(node: Object) -> str:
    """The zone of a Node; empty if it has none."""
    return str((node["metadata"].get("labels") or {}).get(ZONE, ""))
