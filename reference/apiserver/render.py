"""Renders stored objects: in full, as a Table or as metadata only, in the API group that the client requested."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from reference.apiserver import status
from reference.apiserver.media import ResponseForm
from reference.apiserver.reads import ListPage
from reference.apiserver.routes import Route
from reference.apiserver.store import StoredObject
from reference.client import Object

_DEFINED = ("name", "type", "format", "description", "priority")
_INCLUDED = frozenset({"", "None", "Object", "Metadata"})


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders the objects of one response. `include` is the parameter `includeObject`. Raises `ApiError` (400)."""

    route: Route
    answer: ResponseForm
    include: str = "Metadata"

    def __post_init__(self) -> None:
        if self.answer.form == "table" and self.include not in _INCLUDED:
            raise status.bad_request(f"unrecognized includeObject value: {self.include!r}")

    @property
    def form(self) -> tuple[str, ResponseForm, str]:
        """A cache key: two renderers of the same resource with equal keys produce equal output."""
        return self.route.api_version, self.answer, self.include

    @property
    def plain(self) -> bool:
        """True if the stored JSON can be sent unchanged."""
        return self.answer.form == "object" and self.route.view is None

    def json(self, stored: StoredObject) -> bytes:
        return stored.json if self.plain else orjson.dumps(self._value(stored))

    def page_json(self, page: ListPage) -> bytes:
        if not self.plain:
            return orjson.dumps(self._page(page))
        head = orjson.dumps({**self._list_head(), "metadata": _list_metadata(page)})
        return b"".join((head[:-1], b',"items":[', b",".join([each.json for each in page.items]), b"]}"))

    def bookmark(self, revision: int, *, end_of_initial: bool) -> bytes:
        """Return the object of a BOOKMARK event. `end_of_initial` adds the annotation that ends the initial events."""
        metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
        if end_of_initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        if self.answer.form == "table":
            row = {"cells": [], "object": {**self._meta_type("PartialObjectMetadata"), "metadata": metadata}}
            table = {**self._meta_type("Table"), "metadata": metadata, "columnDefinitions": [], "rows": [row]}
            return orjson.dumps(table)
        if self.answer.form == "metadata":
            return orjson.dumps({**self._meta_type("PartialObjectMetadata"), "metadata": metadata})
        kind = self.route.strategy.resource.kind
        return orjson.dumps({"kind": kind, "apiVersion": self.route.api_version, "metadata": metadata})

    def _value(self, stored: StoredObject) -> Object:
        obj = self._seen(stored)
        if self.answer.form == "table":
            return self._table([obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
        return self._metadata(obj) if self.answer.form == "metadata" else obj

    def _page(self, page: ListPage) -> Object:
        seen = [self._seen(each) for each in page.items]
        metadata = _list_metadata(page)
        if self.answer.form == "table":
            return self._table(seen, metadata)
        if self.answer.form == "metadata":
            items = [self._metadata(each) for each in seen]
            return {**self._meta_type("PartialObjectMetadataList"), "metadata": metadata, "items": items}
        return {**self._list_head(), "metadata": metadata, "items": seen}

    def _seen(self, stored: StoredObject) -> Object:
        view = self.route.view
        return stored.object if view is None else view.from_stored(stored.copy())

    def _list_head(self) -> Object:
        return {"kind": f"{self.route.strategy.resource.kind}List", "apiVersion": self.route.api_version}

    def _meta_type(self, kind: str) -> Object:
        return {"kind": kind, "apiVersion": f"meta.k8s.io/{self.answer.meta_version}"}

    def _metadata(self, obj: Object) -> Object:
        return {**self._meta_type("PartialObjectMetadata"), "metadata": obj["metadata"]}

    def _table(self, objects: list[Object], metadata: Object) -> Object:
        columns = self.route.strategy.table
        include = self._included()
        return {
            **self._meta_type("Table"),
            "metadata": metadata,
            "columnDefinitions": [{field: getattr(each, field) for field in _DEFINED} for each in columns],
            "rows": [{"cells": [column.cell(obj) for column in columns], **include(obj)} for obj in objects],
        }

    def _included(self) -> Callable[[Object], dict[str, Any]]:
        if self.include == "None":
            return lambda _: {}
        if self.include == "Object":
            return lambda obj: {"object": obj}
        return lambda obj: {"object": self._metadata(obj)}


def _list_metadata(page: ListPage) -> Object:
    metadata: Object = {"resourceVersion": str(page.revision)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    return metadata
