"""How a cluster that this process did not make itself is asked."""

from __future__ import annotations

AGNHOST = "agnhost"  # in pods, told by requests through the API server
PACKETS = "packets"  # from the netns of clients, on the machine of the cluster

WAYS = (PACKETS, AGNHOST)
