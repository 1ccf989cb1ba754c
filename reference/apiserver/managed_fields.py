"""Who owns which field: `metadata.managedFields` for server-side apply."""

from __future__ import annotations

from reference.client import Object


def track(new: Object, old: Object, manager: str, *, subresource: str = "") -> None:  # noqa: ARG001
    """Note in `new` that `manager` changed fields, when ownership of the object is followed at all."""
    if "managedFields" in old["metadata"]:
        new["metadata"]["managedFields"] = old["metadata"]["managedFields"]
    else:
        new["metadata"].pop("managedFields", None)
