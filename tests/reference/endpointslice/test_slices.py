"""The controller's cache of slices, which bridges the time between a write and its watch event."""

from __future__ import annotations

from typing import Any

from reference.client import Event, Object
from reference.client.client import EventType
from reference.endpointslice.index import SliceIndex
from tests.reference.endpointslice.objects import make_service, slices_for

WEB = ("default", "web")
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


def make_slice(version: int = 1, uid: str = "u1") -> Object:
    (made,) = slices_for(make_service())
    metadata = {**made["metadata"], "name": "web-1", "uid": uid, "resourceVersion": str(version)}
    return {**made, "metadata": metadata}


def send(index: SliceIndex, event_type: EventType, obj: Object) -> Any:
    return set(index.apply(Event(event_type, "endpointslices", obj)))


def test_foreign_slice_is_not_stored() -> None:
    index = SliceIndex()
    foreign = make_slice()
    foreign["metadata"]["labels"][MANAGED_BY] = "me"
    assert send(index, "ADDED", foreign) == set()
    assert index.of(WEB) == ()


def test_unknown_managed_slice_affects_its_service() -> None:
    index = SliceIndex()
    assert send(index, "ADDED", make_slice()) == {WEB}
    assert index.of(WEB) == (make_slice(),)


def test_event_of_an_own_write_affects_no_service() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    assert send(index, "ADDED", make_slice(5)) == set()


def test_older_event_does_not_undo_a_later_write() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    index.written(make_slice(9))
    assert send(index, "ADDED", make_slice(5)) == set()
    assert index.of(WEB) == (make_slice(9),)


def test_newer_version_comes_from_another_client() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    assert send(index, "MODIFIED", make_slice(6)) == {WEB}
    assert index.of(WEB) == (make_slice(6),)


def test_events_of_a_deleted_slice_do_not_restore_it() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    index.deleted(make_slice(5))
    assert send(index, "ADDED", make_slice(5)) == set()
    assert send(index, "DELETED", make_slice(6)) == set()
    assert index.of(WEB) == ()
    assert send(index, "ADDED", make_slice(8, uid="u2")) == {WEB}


def test_slice_deleted_by_another_client_affects_its_service() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    assert send(index, "DELETED", make_slice(6)) == {WEB}
    assert index.of(WEB) == ()


def test_slice_with_a_new_manager_affects_its_service() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    foreign = make_slice(6)
    foreign["metadata"]["labels"][MANAGED_BY] = "me"
    assert send(index, "MODIFIED", foreign) == {WEB}
    assert index.of(WEB) == ()


def test_slice_moved_to_another_service_affects_both() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    moved = make_slice(6)
    moved["metadata"]["labels"]["kubernetes.io/service-name"] = "db"
    assert send(index, "MODIFIED", moved) == {WEB, ("default", "db")}
    assert index.of(WEB) == ()
    assert set(index.services()) == {("default", "db")}
