"""Endpoints are distributed over slices so that few writes are needed."""

from __future__ import annotations

import pytest

from reference.client import Object
from tests.reference.endpointslice.objects import addresses, apply, make_pods, make_service, plan, slices_for

PODS = make_pods(40)


def existing_of(*counts: int, max_endpoints: int = 10) -> list[Object]:
    """Return slices that contain the first pods. `counts` is the number of pods in each slice."""
    found: list[Object] = []
    start = 0
    for number, count in enumerate(counts):
        (each,) = slices_for(make_service(), PODS[start : start + count], max_endpoints=max_endpoints)
        each["metadata"] = {**each["metadata"], "name": f"web-{number}", "uid": f"uid-{number}"}
        found.append(each)
        start += count
    return found


def sizes(slices: list[Object]) -> list[int]:
    return [len(each["endpoints"]) for each in slices]


@pytest.mark.parametrize(
    ("pods", "max_endpoints", "expected"),
    [(0, 10, [0]), (1, 10, [1]), (10, 10, [10]), (11, 10, [1, 10]), (40, 10, [10, 10, 10, 10]), (3, 1, [1, 1, 1])],
)
def test_new_slices_are_filled_one_after_the_other(pods: int, max_endpoints: int, expected: list[int]) -> None:
    assert sorted(sizes(slices_for(make_service(), PODS[:pods], max_endpoints=max_endpoints))) == expected


def test_slice_holds_100_endpoints_by_default() -> None:
    assert sorted(sizes(slices_for(make_service(), make_pods(250)))) == [50, 100, 100]


@pytest.mark.parametrize(
    ("counts", "kept", "added", "expected"),
    [
        # columns: pods per old slice, remaining pods, new pods, (created, updated, deleted)
        ((5,), 5, 3, (0, 1, 0)),  # room in the only slice
        ((10,), 10, 1, (1, 0, 0)),  # no room
        ((9, 9), 18, 2, (1, 0, 0)),  # only two slices together have room: one write is better than two
        ((9, 5), 14, 2, (0, 1, 0)),  # the only slice with room for all
        ((4, 7), 11, 3, (0, 1, 0)),  # both slices have room: the fuller slice
        ((10, 10), 19, 1, (0, 1, 0)),  # a slice that is rewritten anyway takes the new pod
        ((10, 1), 10, 0, (0, 0, 1)),  # the last slice becomes empty
        ((10, 1), 10, 1, (0, 1, 0)),  # the spare slice is reused
        ((2, 2, 2), 6, 0, (0, 0, 0)),  # slices are never evened out
        ((5,), 5, 17, (2, 0, 0)),  # two new slices, and the old slice has no room for the rest
        ((3,), 3, 17, (1, 1, 0)),  # one new slice, and the rest fits into the old slice
    ],
)
def test_number_of_writes_is_small(
    counts: tuple[int, ...], kept: int, added: int, expected: tuple[int, int, int]
) -> None:
    existing = existing_of(*counts)
    total = sum(counts)
    pods = PODS[:kept] + PODS[total : total + added]
    planned = plan(make_service(), pods, existing, max_endpoints=10)
    assert (len(planned.create), len(planned.update), len(planned.delete)) == expected
    assert len(addresses(apply(planned, existing))) == kept + added


def test_the_fuller_of_two_slices_with_room_is_filled() -> None:
    existing = existing_of(4, 7)
    after = slices_for(make_service(), PODS[:14], existing, max_endpoints=10)
    assert sizes(after) == [4, 10]


def test_the_fuller_of_two_slices_that_are_rewritten_anyway_is_filled() -> None:
    existing = existing_of(5, 8)
    pods = make_pods(1, ready=False) + PODS[1:12] + make_pods(13, ready=False)[12:] + PODS[13:15]
    after = slices_for(make_service(), pods, existing, max_endpoints=10)
    assert sizes(after) == [5, 10]


def test_one_unready_pod_rewrites_one_slice() -> None:
    existing = existing_of(10, 10, 10)
    pods = PODS[:29] + make_pods(30, ready=False)[29:]
    planned = plan(make_service(), pods, existing, max_endpoints=10)
    assert (planned.create, [each["metadata"]["name"] for each in planned.update], planned.delete) == (
        (),
        ["web-2"],
        (),
    )


def test_endpoint_in_two_slices_stays_in_one() -> None:
    existing = existing_of(3, 3)
    existing[1]["endpoints"] = [*existing[1]["endpoints"], existing[0]["endpoints"][0]]
    after = slices_for(make_service(), PODS[:6], existing, max_endpoints=10)
    assert sizes(after) == [3, 3]


def test_slice_that_holds_more_than_the_maximum_keeps_what_it_has() -> None:
    assert plan(make_service(), PODS[:20], existing_of(20, max_endpoints=20), max_endpoints=10).is_empty
