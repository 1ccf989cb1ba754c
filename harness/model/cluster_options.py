"""Values of options about clusters, shared by the packages that parse or use them."""

from __future__ import annotations

NO_CNI = "none"
"""The value of --cni for a cluster to which the suite adds no network plugin."""

OF_BOTH_FAMILIES = frozenset({"IPv6", "DualStack"})
"""Features that only a cluster with both IPv4 and IPv6 shows."""

AGNHOST = "agnhost"
"""Probes are sent by agnhost in pods, on request through the API server."""
PACKETS = "packets"
"""Probes are sent from the network namespaces of clients, on the machine of the cluster."""
WAYS = (PACKETS, AGNHOST)
