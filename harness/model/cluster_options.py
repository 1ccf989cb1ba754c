"""Values of cluster options that several packages use."""

NO_CNI = "none"  # value of --cni for a cluster in which the suite installs no network plugin

OF_BOTH_FAMILIES = frozenset({"IPv6", "DualStack"})
"""Features that can only be observed on a cluster with both IPv4 and IPv6."""

AGNHOST = "agnhost"  # agnhost in pods sends the probes, through the API server
PACKETS = "packets"  # this process sends the probes, from network namespaces of the machine that runs the cluster
WAYS = (PACKETS, AGNHOST)
