"""The times of changes that the controller writes to slices, and that proxies read."""

from __future__ import annotations

import pytest

from reference.client import Object
from reference.objects.trigger_times import (
    ANNOTATION,
    change_times,
    read_trigger_time,
    trigger_time,
    with_trigger_time,
)

CREATED, EARLY, LATE = (f"2026-01-01T00:00:0{second}Z" for second in (1, 2, 3))
SERVICE: Object = {"metadata": {"name": "web", "creationTimestamp": CREATED}}


def pod(name: str, time: str | None) -> Object:
    conditions = [{"type": "PodScheduled", "lastTransitionTime": LATE}, {"type": "Ready", "lastTransitionTime": time}]
    return {"metadata": {"name": name}, "status": {"conditions": conditions}}


def test_times_are_those_of_the_service_and_of_the_readiness_of_pods() -> None:
    pods = [pod("p1", EARLY), pod("p2", None), {"metadata": {"name": "p3"}}]
    assert change_times(SERVICE, pods) == {"": CREATED, "p1": EARLY, "p2": ""}


def test_first_look_has_the_time_of_the_service() -> None:
    assert trigger_time(None, {"": CREATED, "p1": EARLY}) == CREATED


def test_earliest_new_time_counts() -> None:
    before = {"": CREATED, "p1": EARLY}
    assert trigger_time(before, {**before, "p1": LATE, "p2": EARLY}) == EARLY
    assert trigger_time(before, {**before, "p1": LATE}) == LATE


def test_change_without_a_new_time_has_none() -> None:
    before = {"": CREATED, "p1": EARLY, "p2": LATE}
    assert trigger_time(before, {"": CREATED, "p1": EARLY}) == ""
    assert trigger_time(before, {**before, "p2": EARLY}) == ""


def test_service_that_was_created_again_has_a_new_time() -> None:
    assert trigger_time({"": CREATED}, {"": LATE}) == LATE


@pytest.mark.parametrize("annotations", [None, {}, {"example.org/mine": "yes"}])
def test_time_is_written_beside_other_annotations_and_removed(annotations: dict[str, str] | None) -> None:
    metadata = {"name": "web-1", **({} if annotations is None else {"annotations": annotations})}
    written = with_trigger_time({"metadata": metadata}, EARLY)
    assert written["metadata"]["annotations"] == {**(annotations or {}), ANNOTATION: EARLY}
    removed = with_trigger_time(written, "")
    assert removed["metadata"].get("annotations", {}) == (annotations or {})
    assert "annotations" not in removed["metadata"] or removed["metadata"]["annotations"]
    assert ANNOTATION not in (annotations or {})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T00:00:10.25Z", 10.25),
        ("1970-01-01T00:00:10.123456789Z", 10.123456),
        ("1970-01-01T01:00:10+01:00", 10.0),
        ("yesterday", 0.0),
        (None, 0.0),
    ],
)
def test_time_is_read_in_seconds(text: str | None, seconds: float) -> None:
    assert read_trigger_time({"metadata": {"annotations": {ANNOTATION: text}}}) == seconds


def test_slice_without_annotations_has_no_time() -> None:
    assert read_trigger_time({"metadata": {}}) == 0.0
