"""Writes of a controller that fail: the API server refuses slices with an address that no endpoint may have."""

from __future__ import annotations

from collections.abc import Mapping

from harness.api.client import path_of
from harness.errors import InconclusiveError
from harness.model import manifests
from harness.model.abilities import Ability
from harness.model.manifests import Endpoint
from harness.scenario.cluster import Cluster
from harness.scenario.service import Service

LINK_LOCAL = {"IPv4": "169.254.1.9", "IPv6": "fe80::9"}
"""Addresses that a pod may report and an EndpointSlice may not have (discovery/v1 validation)."""


def create_unwritable_pod(cluster: Cluster, name: str, node: str, *, labels: Mapping[str, str]) -> None:
    """Create a ready pod that exists in the API only, and whose endpoint the API server refuses in any slice.

    Beside it there is one that is not refused. So a controller that takes the first for an endpoint has syncs that
    fail, and one that leaves it out shows it: it writes a slice of the other. Raises `InconclusiveError` where the API
    server does not refuse such a slice.
    """
    trial = manifests.endpoint_slice(f"{name}-trial", "trial", [Endpoint(LINK_LOCAL)])
    answer = cluster.api.request("POST", path_of("endpointslices", cluster.namespace), trial, query={"dryRun": "All"})
    if answer.code != 422:
        raise InconclusiveError(f"no sync can be made to fail: a slice with {LINK_LOCAL['IPv4']} is not refused")
    cluster.backend.need(Ability.REPORT_PODS)
    cluster.create_pod(name, node, labels=labels)
    addresses = {"podIP": LINK_LOCAL["IPv4"], "podIPs": [{"ip": each} for each in LINK_LOCAL.values()]}
    cluster.api.patch("pods", cluster.namespace, name, {"status": addresses}, subresource="status")
    cluster.create_pod(f"{name}-beside", node, labels=labels)


def why_no_sync_failed(cluster: Cluster, service: Service) -> str:
    """Return why maybe no sync of this Service failed, which selects an unwritable pod; "" if one must have."""
    names = ", ".join(each["metadata"]["name"] for each in cluster.slices(service))
    return f"no sync failed: slices of service {service.name} were written ({names})" if names else ""
