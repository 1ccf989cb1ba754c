"""The Lease with which a node's proxy acknowledges changes: its name and content.

Proxies write the Lease and controllers read it, possibly in different versions, so its form must stay compatible. Other
proxies may also write it. KEP-4444, Status Reporting, requires that users are informed; this project chose the form.
"""

from __future__ import annotations

from typing import Any

from reference.client import Object

NAMESPACE = "kube-system"
ANNOTATION = "trafficdist.dev/programmed-resource-version"
"""All changes up to this resource version are in the node's kernel."""

_NAME_PREFIX = "service-proxy-"


def lease_name(node: str) -> str:
    return _NAME_PREFIX + node


def node_of(lease: Object) -> str:
    """Return the node of an acknowledgement Lease, or "" for any other Lease."""
    metadata = lease["metadata"]
    name = str(metadata["name"])
    ours = metadata.get("namespace") == NAMESPACE and name.startswith(_NAME_PREFIX)
    return name.removeprefix(_NAME_PREFIX) if ours else ""


def revision_of(lease: Object) -> int | None:
    """Return the resource version that a Lease acknowledges, or None if it is missing or not a number."""
    text = str((lease["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    return int(text) if text.isdecimal() else None


def with_revision(lease: Object, revision: int) -> Object:
    """Return the Lease with a different acknowledged revision."""
    metadata: dict[str, Any] = lease["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: str(revision)}
    return {**lease, "metadata": {**metadata, "annotations": annotations}}
