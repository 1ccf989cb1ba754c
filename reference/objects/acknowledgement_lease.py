"""The Lease by which a node's proxy acknowledges changes: its name, and what is written in it.

Proxies write it and controllers read it, in whatever versions they are, so it is a contract between them. A proxy that
writes one can be somebody else's. Source: KEP-4444, Status Reporting, wants users to know; the form is this project's.
"""

from __future__ import annotations

from typing import Any

from reference.client import Object

NAMESPACE = "kube-system"
ANNOTATION = "trafficdist.dev/programmed-resource-version"
"""All changes up to this resource version are in the node's kernel."""

_NAME_PREFIX = "service-proxy-"


def lease_name(node: str) -> str:
    """Return the name of a node's Lease."""
    return _NAME_PREFIX + node


def node_of(lease: Object) -> str:
    """Return the node whose Lease this is; "" for a Lease of another kind."""
    metadata = lease["metadata"]
    name = str(metadata["name"])
    ours = metadata.get("namespace") == NAMESPACE and name.startswith(_NAME_PREFIX)
    return name.removeprefix(_NAME_PREFIX) if ours else ""


def revision_of(lease: Object) -> int | None:
    """Return the resource version that a Lease acknowledges; None if there is none, or no number."""
    text = str((lease["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    return int(text) if text.isdecimal() else None


def with_revision(lease: Object, revision: int) -> Object:
    """Return the same Lease with another revision acknowledged."""
    metadata: dict[str, Any] = lease["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: str(revision)}
    return {**lease, "metadata": {**metadata, "annotations": annotations}}
