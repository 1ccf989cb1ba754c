"""Names for the network of a cluster, in options, recipes and reports."""

from __future__ import annotations

NO_CNI = "none"
"""The value of --cni for a cluster to which the suite brings no network plugin."""

OF_BOTH_FAMILIES = frozenset({"IPv6", "DualStack"})
"""Features that only a cluster with both IPv4 and IPv6 shows."""
