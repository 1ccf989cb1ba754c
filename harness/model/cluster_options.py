"""Option values about clusters, shared by the packages that parse or use them."""

from __future__ import annotations

NO_CNI = "none"
"""The value of --cni for a cluster to which the suite adds no network plugin."""

OF_BOTH_FAMILIES = frozenset({"IPv6", "DualStack"})
"""Features that can be observed only on a cluster with both IPv4 and IPv6."""

AGNHOST = "agnhost"
"""agnhost sends probes from pods, as requested through the API server."""
PACKETS = "packets"
"""Probes are sent from the clients' network namespaces, on the machine that runs the cluster."""
WAYS = (PACKETS, AGNHOST)
