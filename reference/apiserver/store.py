"""Objects, one revision counter, and the recent past of every resource.

Everything that is stored is shared and never changed again: a write stores a new dict. So readers need no copy, a
watch event is a reference, and an object is turned into JSON at most once however many watchers there are.

The recent past is a bounded list of changes for each resource. It serves resumed watches, and, read backwards, lists
at an older revision, which is what continue tokens need. What has left the list is gone: 410 Expired.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal

import orjson

from reference.client import Object

Key = tuple[str, str]
"""Namespace ("" when the resource has none) and name."""

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class TooOldError(Exception):
    """A revision that the store no longer remembers."""


@dataclass(slots=True)
class Stored:
    """One version of one object; its JSON is made when first asked for."""

    object: Object
    revision: int
    _json: bytes | None = None

    @property
    def json(self) -> bytes:
        if self._json is None:
            self._json = orjson.dumps(self.object)
        return self._json

    def copy(self) -> Object:
        """A private copy that may be changed."""
        copy: Object = orjson.loads(self.json)
        return copy


@dataclass(frozen=True, slots=True)
class Change:
    """One write. `new` is the object as it is now, for DELETED as it last was, with the deletion's revision."""

    type: ChangeType
    resource: str
    new: Stored
    old: Stored | None
    revision: int


Observer = Callable[[Change], None]


@dataclass(slots=True)
class _Table:
    """One resource: its objects and the changes since `horizon`."""

    objects: dict[Key, Stored] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    horizon: int = 0
    observers: tuple[Observer, ...] = ()


class Store:
    """All objects of the cluster. Callers that read and then write hold `lock` over both."""

    def __init__(self, resources: Iterable[str], *, window: int = 4096) -> None:
        self.lock = threading.RLock()
        self.revision = 0
        self._window = window
        self._tables = {resource: _Table() for resource in resources}

    def add_resource(self, resource: str) -> None:
        """Serve one resource more."""
        with self.lock:
            self._tables[resource] = _Table(horizon=self.revision)

    def get(self, resource: str, key: Key) -> Stored | None:
        return self._tables[resource].objects.get(key)

    def keys(self, resource: str) -> Collection[Key]:
        """Where objects of a resource are; a live view, for use under the lock."""
        return self._tables[resource].objects.keys()

    def items(self, resource: str) -> list[Stored]:
        """All objects of a resource, by namespace and name."""
        with self.lock:
            objects = self._tables[resource].objects
            return [objects[key] for key in sorted(objects)]

    def items_at(self, resource: str, revision: int) -> list[Stored]:
        """All objects as they were at a revision. Raises `TooOldError`."""
        with self.lock:
            objects = dict(self._tables[resource].objects)
            for change in reversed(self.changes_since(resource, revision)):
                key = key_of(change.new.object)
                if change.old is None:
                    del objects[key]
                else:
                    objects[key] = change.old
            return [objects[key] for key in sorted(objects)]

    def changes_since(self, resource: str, revision: int) -> list[Change]:
        """The changes after a revision, oldest first. Raises `TooOldError`."""
        with self.lock:
            table = self._tables[resource]
            if revision < table.horizon:
                raise TooOldError(f"too old resource version: {revision} ({table.horizon})")
            start = bisect_right(table.changes, revision, key=lambda change: change.revision)
            return table.changes[start:]

    def put(self, resource: str, obj: Object) -> Stored:
        """Store a new version of `obj`, which belongs to the store from now on."""
        with self.lock:
            table = self._tables[resource]
            key = key_of(obj)
            old = table.objects.get(key)
            stored = self._stamp(obj)
            table.objects[key] = stored
            self._record(table, Change("MODIFIED" if old else "ADDED", resource, stored, old, stored.revision))
            return stored

    def remove(self, resource: str, obj: Object) -> Stored:
        """Take an object out; `obj` is a private copy of its last state. Watchers see it with a new revision."""
        with self.lock:
            table = self._tables[resource]
            old = table.objects.pop(key_of(obj))
            stored = self._stamp(obj)
            self._record(table, Change("DELETED", resource, stored, old, stored.revision))
            return stored

    def observe(self, resources: Iterable[str], observer: Observer) -> None:
        """Call `observer` under the lock for every later change of these resources."""
        with self.lock:
            for resource in resources:
                self._tables[resource].observers += (observer,)

    def forget(self, observer: Observer) -> None:
        """Undo `observe`; when this has returned, the observer is not called again."""
        with self.lock:
            for table in self._tables.values():
                table.observers = tuple(each for each in table.observers if each != observer)

    def _stamp(self, obj: Object) -> Stored:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        return Stored(obj, self.revision)

    def _record(self, table: _Table, change: Change) -> None:
        table.changes.append(change)
        if len(table.changes) >= 2 * self._window:  # cut rarely: a cut moves the whole list
            table.horizon = table.changes[-self._window - 1].revision
            del table.changes[: -self._window]
        for observer in table.observers:
            observer(change)


def key_of(obj: Object) -> Key:
    """Where an object is stored."""
    meta = obj["metadata"]
    return meta.get("namespace") or "", meta["name"]
