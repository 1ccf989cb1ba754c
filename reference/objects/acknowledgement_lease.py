"""The name and content of the Lease with which a node's proxy acknowledges changes.

Proxies write the Lease and controllers read it, possibly in different versions, so its format must stay compatible.
KEP-4444, Status Reporting, requires feedback to users, but defines no format.
"""

import hashlib
from typing import Any

from reference.client import Object

NAMESPACE = "kube-system"
ANNOTATION = "trafficdist.dev/programmed-resource-version"
"""The annotation with a resource version. All changes up to this version are in the node's kernel."""

_NAME_PREFIX = "service-proxy-"
_LONGEST = 253  # the maximum length of an object's name


def lease_name(node: str) -> str:
    """Return the name of a node's Lease. Long names are shortened, and end with a hash of the node's name."""
    name = _NAME_PREFIX + node
    return name if len(name) <= _LONGEST else f"{name[:200]}-{hashlib.sha256(node.encode()).hexdigest()[:16]}"


def node_of(lease: Object) -> str:
    """Return the node of an acknowledgement Lease, or "" for any other Lease."""
    metadata, holder = lease["metadata"], str((lease.get("spec") or {}).get("holderIdentity") or "")
    name = str(metadata["name"])
    if metadata.get("namespace") != NAMESPACE or not name.startswith(_NAME_PREFIX):
        return ""
    return holder if lease_name(holder) == name else name.removeprefix(_NAME_PREFIX)


def revision_of(lease: Object) -> int | None:
    """Return the resource version that a Lease acknowledges, or None if it is missing or not a number."""
    version = str((lease["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    return int(version) if version.isdecimal() else None


def with_revision(lease: Object, revision: int) -> Object:
    metadata: dict[str, Any] = lease["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: str(revision)}
    return {**lease, "metadata": {**metadata, "annotations": annotations}}
