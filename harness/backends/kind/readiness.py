"""Which nodes and pods are ready, by what their kubelets say."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from harness.api.client import Api, Object, RefusedError
from harness.errors import InconclusiveError
from harness.model.conditions import is_true


def list_nodes(api: Api) -> list[Object]:
    """All nodes; none while the API server does not answer."""
    with contextlib.suppress(InconclusiveError, RefusedError):
        return api.list("nodes")
    return []


def ready_nodes(nodes: Sequence[Object]) -> set[str]:
    """The names of those that are ready, and of which the node controller has taken notice: pods may go there."""
    return {node["metadata"]["name"] for node in nodes if is_true(node, "Ready") and not _is_held_back(node)}


def is_ready(pod: Object) -> bool:
    """Whether a pod runs, is ready and is not on its way out."""
    return is_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]


def _is_held_back(node: Object) -> bool:
    taints = node.get("spec", {}).get("taints") or ()
    return any(each["key"].startswith("node.kubernetes.io/") for each in taints)
