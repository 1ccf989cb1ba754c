"""The stored objects, one revision counter, and the recent changes of every resource.

Stored objects are shared and immutable, so readers need no copies, a watch event is only a reference, and an object is
encoded at most once for all watchers.

Each resource has a bounded list of changes. Watches resume from this list. Reading it backwards reconstructs older
revisions for lists with continue tokens. Requests for a revision that is older than the list receive 410 Expired.

Objects outlive the server. The next server's release may lack some fields. These fields stay stored, separately from
the served object, until that server writes the object.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import orjson

from reference.apiserver import status
from reference.client import Key, Object, key_of

MOST_BYTES = 128 * 1024 * 1024
"""The maximum size of all objects as JSON. If it is exceeded, the server refuses requests, like etcd at its quota."""

MOST_BYTES_OF_CHANGES = 64 * 1024 * 1024
"""The maximum size of the objects in the list of changes of a resource."""

Served = Callable[[Object], Object]
"""Returns an object without the fields that a release lacks, or the same object if it has none of these fields."""

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class TooOldError(Exception):
    """The revision is older than all revisions that the store remembers."""


@dataclass(slots=True)
class StoredObject:
    """One version of one object. Its JSON is created on first use."""

    object: Object
    revision: int
    _json: bytes | None = None

    @property
    def json(self) -> bytes:
        if self._json is None:
            self._json = orjson.dumps(self.object)
        return self._json

    def copy(self) -> Object:
        """Return a private copy that the caller may change."""
        copy: Object = orjson.loads(self.json)
        return copy

    def in_full(self) -> "StoredObject":
        """Return the object as it was stored, including fields that this release lacks."""
        return self

    @property
    def hides(self) -> bool:
        """True if the stored object has fields that this release lacks."""
        return False


class AbridgedObject(StoredObject):
    """An object that another release stored. `object` has only the fields of this release, and is created on first use.

    With this class, a new server takes over thousands of slices in milliseconds. Copying them would take a second.
    """

    __slots__ = ("_full", "_known", "_served")

    def __init__(self, full: StoredObject, served: Served) -> None:
        self.revision = full.revision
        self._json = None
        self._full, self._served = full, served
        self._known: Object | None = None

    @property
    def object(self) -> Object:  # type: ignore[override]  # read-only here
        if self._known is None:
            self._known = self._served(self._full.object)
        return self._known

    def in_full(self) -> StoredObject:
        return self._full

    @property
    def hides(self) -> bool:
        return self.object is not self._full.object


@dataclass(frozen=True, slots=True)
class Change:
    """One write. `new` is the object after the write. For DELETED, `new` is its last state with a new revision."""

    type: ChangeType
    resource: str
    new: StoredObject
    old: StoredObject | None
    revision: int


Observer = Callable[[Change], None]


@dataclass(slots=True)
class _Table:
    """The objects of one resource, and its changes after the revision `horizon`."""

    objects: dict[Key, StoredObject] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    bytes_of_changes: int = 0
    horizon: int = 0
    observers: tuple[Observer, ...] = ()


class Store:
    """All objects of the cluster. Callers that read and then write must hold `lock` during both operations."""

    def __init__(self, resources: Iterable[str], *, window: int = 4096) -> None:
        self.lock = threading.RLock()
        self.revision = 0
        self.bytes = 0
        self._window = window
        self._tables = {resource: _Table() for resource in resources}

    def hand_over(self, served: Mapping[str, Served]) -> "Store":
        """Return the next server's store, filtered by `served`, without history. Then this store raises 503 errors."""
        with self.lock:
            successor = type(self)((), window=self._window)
            successor.lock, successor.revision, successor.bytes = self.lock, self.revision, self.bytes
            for resource, table in self._tables.items():
                objects = _as_served(table.objects, served.get(resource))
                successor._tables[resource] = _Table(objects, horizon=self.revision)
            self._tables = _HandedOverTables()
        return successor

    def serve(self, resource: str, served: Served | None) -> None:
        """Register a resource if it is new, and filter its objects with `served`, unless `served` is None."""
        with self.lock:
            table = self._tables.setdefault(resource, _Table(horizon=self.revision))
            table.objects = _as_served(table.objects, served)

    def get(self, resource: str, key: Key) -> StoredObject | None:
        return self._tables[resource].objects.get(key)

    def keys(self, resource: str) -> Collection[Key]:
        """Return a live view of the keys of a resource's objects. Use it only while holding the lock."""
        return self._tables[resource].objects.keys()

    def items(self, resource: str) -> list[StoredObject]:
        """Return all objects of a resource, sorted by namespace and name."""
        with self.lock:
            objects = self._tables[resource].objects
            return [objects[key] for key in sorted(objects)]

    def items_at(self, resource: str, revision: int) -> list[StoredObject]:
        """Return all objects of a resource as they were at a revision. Raises `TooOldError`."""
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
        """Return the changes after a revision, oldest first. Raises `TooOldError`."""
        with self.lock:
            table = self._tables[resource]
            if revision < table.horizon:
                raise TooOldError(f"too old resource version: {revision} ({table.horizon})")
            start = bisect_right(table.changes, revision, key=lambda change: change.revision)
            return table.changes[start:]

    def put(self, resource: str, obj: Object) -> StoredObject:
        """Store a new version of `obj`, which the store owns from now on."""
        with self.lock:
            table = self._tables[resource]
            key = key_of(obj)
            old = table.objects.get(key)
            stored = self._stamp(obj)
            table.objects[key] = stored
            self.bytes += len(stored.json) - (len(old.json) if old else 0)
            self._record(table, Change("MODIFIED" if old else "ADDED", resource, stored, old, stored.revision))
            return stored

    def remove(self, resource: str, obj: Object) -> StoredObject:
        """Remove an object; `obj` is a private copy of its last state. Watchers receive `obj` with a new revision."""
        with self.lock:
            table = self._tables[resource]
            old = table.objects.pop(key_of(obj))
            stored = self._stamp(obj)
            self.bytes -= len(old.json)
            self._record(table, Change("DELETED", resource, stored, old, stored.revision))
            return stored

    def observe(self, resources: Iterable[str], observer: Observer) -> None:
        """Register `observer`. The store calls it, under its lock, for every later change of these resources."""
        with self.lock:
            for resource in resources:
                self._tables[resource].observers += (observer,)

    def forget(self, observer: Observer) -> None:
        """Undo `observe`. After this method returns, the store does not call the observer again."""
        with self.lock:
            for table in self._tables.values():
                table.observers = tuple(each for each in table.observers if each != observer)

    def _stamp(self, obj: Object) -> StoredObject:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        return StoredObject(obj, self.revision)

    def _record(self, table: _Table, change: Change) -> None:
        table.changes.append(change)
        table.bytes_of_changes += len(change.new.json)
        if len(table.changes) >= 2 * self._window:  # cut rarely: a cut moves the whole list
            self._forget(table, len(table.changes) - self._window)
        elif table.bytes_of_changes > MOST_BYTES_OF_CHANGES:
            self._forget(table, (len(table.changes) + 1) // 2)
        for observer in table.observers:
            observer(change)

    @staticmethod
    def _forget(table: _Table, count: int) -> None:
        table.horizon = table.changes[count - 1].revision
        table.bytes_of_changes -= sum(len(each.new.json) for each in table.changes[:count])
        del table.changes[:count]


class _HandedOverTables(dict[str, _Table]):
    def __missing__(self, resource: str) -> _Table:
        raise status.unavailable()


def _as_served(objects: dict[Key, StoredObject], served: Served | None) -> dict[Key, StoredObject]:
    if served is None:
        return {key: each.in_full() for key, each in objects.items()}
    return {key: AbridgedObject(each.in_full(), served) for key, each in objects.items()}
