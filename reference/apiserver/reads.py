"""Answers list requests: with selectors, in pages with continue tokens, and at older revisions.

A continue token contains the revision of the first page and the key of the last object sent, so the server keeps no
state. If the store has forgotten the revision, the server answers 410 Expired.
"""

import base64
import binascii
from dataclasses import dataclass

import orjson

from reference.apiserver import status
from reference.apiserver.registry import Registry
from reference.apiserver.selectors import Selection
from reference.apiserver.store import StoredObject, TooOldError
from reference.client import Key, key_of

_MAX_DIGITS = 100  # the longest number to parse; Python refuses more than 4300 digits


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The parameters of a list request, except the selectors. A `limit` of 0 means no limit."""

    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    match: str = ""
    """resourceVersionMatch: "", "Exact" or "NotOlderThan"."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of selected objects at a revision. `remaining` is the number of objects on later pages, if known."""

    items: list[StoredObject]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


def page(registry: Registry, resource: str, selection: Selection, query: ListQuery) -> ListPage:
    """Return one page of a list. Raises `ApiError`: 400, 404, 410, 504."""
    registry.strategy(resource)
    with registry.store.lock:
        start, revision = _start(registry, query)
        if revision is None or revision == registry.store.revision:
            revision = registry.store.revision
            items = registry.store.items(resource)
        else:
            items = _items_at(registry, resource, revision, in_token=bool(query.continue_token))
    chosen = items if selection.everything else [each for each in items if selection.matches(each.object)]
    if start is not None:
        chosen = [each for each in chosen if key_of(each.object) > start]
    return _cut(chosen, revision, query.limit, selection)


def parse_revision(text: str) -> int:
    """Parse a resourceVersion; "" means 0. Raises `ApiError` (400)."""
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()):
        raise status.bad_request(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: invalid syntax')
    if len(text) > _MAX_DIGITS or int(text) >= 1 << 64:
        raise status.bad_request(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: value out of range')
    return int(text)


def _start(registry: Registry, query: ListQuery) -> tuple[Key | None, int | None]:
    """Return the key after which the page starts (None: at the start), and the revision (None: the latest)."""
    current = registry.store.revision
    if query.continue_token:
        if query.resource_version not in {"", "0"}:
            raise status.bad_request("specifying resource version is not allowed when using continue")
        return _read_token(query.continue_token)
    asked = parse_revision(query.resource_version)
    if query.match and not query.resource_version:
        raise status.bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if asked > current:
        raise status.too_large_version(asked, current)
    if query.match == "Exact":
        if asked == 0:
            raise status.bad_request('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
        return None, asked
    return None, None


def _items_at(registry: Registry, resource: str, revision: int, *, in_token: bool) -> list[StoredObject]:
    try:
        return registry.store.items_at(resource, revision)
    except TooOldError as error:
        raise status.expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter."
            if in_token
            else f"The resourceVersion for the provided list is too old: {error}"
        ) from None


def _cut(chosen: list[StoredObject], revision: int, limit: int, selection: Selection) -> ListPage:
    if limit <= 0 or len(chosen) <= limit:
        return ListPage(chosen, revision)
    items = chosen[:limit]
    counted = not selection.labels and not selection.fields  # as in Kubernetes, which cannot count through a selector
    remaining = len(chosen) - limit if counted else None
    return ListPage(items, revision, _token(revision, key_of(items[-1].object)), remaining)


def _token(revision: int, last: Key) -> str:
    return base64.urlsafe_b64encode(orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": last})).decode()


def _read_token(token: str) -> tuple[Key, int]:
    try:
        value = orjson.loads(base64.urlsafe_b64decode(token))
        namespace, name = value["start"]
        return (str(namespace), str(name)), int(value["rv"])
    except (binascii.Error, ValueError, KeyError, TypeError, OverflowError):
        raise status.bad_request("continue key is not valid") from None
