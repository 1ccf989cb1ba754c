"""The nodes of a kind cluster: their readiness, and their rate limit for ICMP errors."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from harness.api.client import Api, Object, RefusedError
from harness.backends.containers.engine import ContainerEngine
from harness.errors import InconclusiveError
from harness.model.manifests import has_condition

_LIMITED = {"/proc/sys/net/ipv4/icmp_ratemask": "0", "/proc/sys/net/ipv6/icmp/ratemask": "255"}
"""The ICMP types to limit: no type for IPv4, and for IPv6, which rejects an empty set, a type that is not an error."""


def list_nodes(api: Api) -> list[Object]:
    """Return all nodes, or an empty result while the API server does not answer."""
    with contextlib.suppress(InconclusiveError, RefusedError):
        return api.list("nodes")
    return []


def ready_nodes(nodes: Sequence[Object]) -> set[str]:
    """Return the names of ready nodes without taints of the node controller."""
    return {node["metadata"]["name"] for node in nodes if has_condition(node, "Ready") and not _is_held_back(node)}


def lift_icmp_limit(shell: ContainerEngine, node: str) -> None:
    """Lift the rate limit of a node's ICMP errors, so that it refuses every connection. Raises `UnavailableError`.

    By default its kernel sends one ICMP error per second to each client. The setting ends with the node's netns.
    """
    shell.execute(
        node, "sh", "-ec", "; ".join(f"[ ! -e {file} ] || echo {kinds} > {file}" for file, kinds in _LIMITED.items())
    )


def _is_held_back(node: Object) -> bool:
    taints = node.get("spec", {}).get("taints") or ()
    return any(each["key"].startswith("node.kubernetes.io/") for each in taints)
