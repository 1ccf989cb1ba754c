"""Labels and annotations (`k8s.io/api/discovery/v1`, `k8s.io/api/core/v1`) that the controller reads or writes."""

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
    """Return the labels for the slices of `service`: its own labels except reserved ones, and the reserved labels."""
    own: dict[str, str] = service["metadata"].get("labels") or {}
    labels = {key: value for key, value in own.items() if key not in RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    labels[SERVICE_NAME] = service["metadata"]["name"]
    labels[MANAGED_BY] = CONTROLLER
    return labels


def is_headless(service: Object) -> bool:
    """Return whether the Service has no cluster IP, or (as in Kubernetes) has not been allocated one yet."""
    return service["spec"].get("clusterIP", "") in {"", "None"}


def is_managed(endpoint_slice: Object) -> bool:
    labels = endpoint_slice["metadata"].get("labels") or {}
    return bool(labels.get(MANAGED_BY) == CONTROLLER)


def service_name(endpoint_slice: Object) -> str:
    """Return the name of the Service that the slice belongs to, or "" if the slice has no Service label."""
    return str((endpoint_slice["metadata"].get("labels") or {}).get(SERVICE_NAME, ""))


def node_zone(node: Object) -> str:
    return str((node["metadata"].get("labels") or {}).get(ZONE, ""))
