"""Lists and patches objects of an API server in this process, which no component does."""

from __future__ import annotations

from typing import Any

from reference.apiserver import ApiServer, patches, reads, writes
from reference.apiserver.patches import MERGE
from reference.apiserver.registry import ObjectRef, Write
from reference.apiserver.selectors import select
from reference.client import Object


def listed(api: ApiServer, resource: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
    """Return the objects of a namespace ("": all), sorted by key. They are shared, so copy before changing them."""
    selection = select(api.registry.strategy(resource), namespace, labels, fields)
    return [each.object for each in reads.page(api.registry, resource, selection, reads.ListQuery()).items]


def patched(
    api: ApiServer,
    resource: str,
    namespace: str,
    name: str,
    patch: Any,
    *,
    content_type: str = MERGE,
    subresource: str = "",
) -> Object:
    """Apply a JSON patch, a JSON merge patch or a strategic merge patch, depending on `content_type`."""
    target = ObjectRef(resource, namespace, name, subresource)
    return patches.patch(api.registry, target, content_type, writes.private(patch), Write()).object
