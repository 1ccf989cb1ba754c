"""The controller's cache of slices between a write and its watch event."""

from __future__ import annotations

from typing import Any

from reference.client import Event, EventType, Object
from reference.endpointslice.slices import SliceIndex
from tests.reference.endpointslice.objects import make_service, slices_for

WEB = ("default", "web")
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


def make_slice(version: int = 1, uid: str = "u1") -> Object:
    (made,) = slices_for(make_service())
    metadata = {**made["metadata"], "name": "web-1", "uid": uid, "resourceVersion": str(version)}
    return {**made, "metadata": metadata}


def send(index: SliceIndex, event_type: EventType, obj: Object) -> Any:
    return set(index.apply(Event(event_type, "endpointslices", obj)))


def test_slice_of_somebody_else_is_not_kept() -> None:
    index = SliceIndex()
    foreign = make_slice()
    foreign["metadata"]["labels"][MANAGED_BY] = "me"
    assert send(index, "ADDED", foreign) == set()
    assert index.of(WEB) == ()


def test_unknown_managed_slice_concerns_its_service() -> None:
    index = SliceIndex()
    assert send(index, "ADDED", make_slice()) == {WEB}
    assert index.of(WEB) == (make_slice(),)


def test_echo_of_an_own_write_concerns_nobody() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    assert send(index, "ADDED", make_slice(5)) == set()


def test_older_echo_does_not_undo_a_later_write() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    index.written(make_slice(9))
    assert send(index, "ADDED", make_slice(5)) == set()
    assert index.of(WEB) == (make_slice(9),)


def test_newer_version_was_written_by_somebody_else() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    assert send(index, "MODIFIED", make_slice(6)) == {WEB}
    assert index.of(WEB) == (make_slice(6),)


def test_echoes_of_a_slice_that_was_deleted_since_do_not_bring_it_back() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    index.deleted(make_slice(5))
    assert send(index, "ADDED", make_slice(5)) == set()
    assert send(index, "DELETED", make_slice(6)) == set()
    assert index.of(WEB) == ()
    assert send(index, "ADDED", make_slice(8, uid="u2")) == {WEB}


def test_slice_deleted_by_somebody_else_concerns_its_service() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    assert send(index, "DELETED", make_slice(6)) == {WEB}
    assert index.of(WEB) == ()


def test_slice_that_changed_hands_concerns_its_service() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    foreign = make_slice(6)
    foreign["metadata"]["labels"][MANAGED_BY] = "me"
    assert send(index, "MODIFIED", foreign) == {WEB}
    assert index.of(WEB) == ()


def test_slice_that_changed_its_service_concerns_both() -> None:
    index = SliceIndex()
    index.written(make_slice(5))
    moved = make_slice(6)
    moved["metadata"]["labels"]["kubernetes.io/service-name"] = "db"
    assert send(index, "MODIFIED", moved) == {WEB, ("default", "db")}
    assert index.of(WEB) == ()
    assert set(index.services()) == {("default", "db")}
