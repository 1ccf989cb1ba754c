"""Tests that a controller's late writes for one change are not taken for its response to the next change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, count, repeat
from typing import Any, cast

import pytest

from harness.api.client import Api
from harness.backends.any_cluster import barrier
from harness.backends.any_cluster.barrier import StableSlices


class _FakeApi:
    """An API server with one EndpointSlice. Each request returns the next of these versions."""

    def __init__(self, versions: Iterator[int]) -> None:
        self.writes = 1
        self.looks: list[int] = []
        self._versions = versions

    def list(self, resource: str, namespace: str) -> Sequence[Any]:
        assert (resource, namespace) == ("endpointslices", "td-one")
        self.looks.append(next(self._versions))
        return [{"metadata": {"uid": "u", "resourceVersion": str(self.looks[-1])}}]


def _waits(api: _FakeApi) -> StableSlices:
    waits = StableSlices(cast("Api", api))
    waits.begin("td-one")
    return waits


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "QUIET", 0.1)
    monkeypatch.setattr(barrier, "LONGEST", 0.5)


def test_changing_slices_are_waited_for() -> None:
    api = _FakeApi(chain([1, 1, 2, 2, 3], repeat(4)))
    _waits(api).wait()
    assert api.looks[:5] == [1, 1, 2, 2, 3]
    assert api.looks.count(4) > 1


def test_endless_writes_end_the_wait() -> None:
    api = _FakeApi(count())
    _waits(api).wait()
    assert len(api.looks) < 100


def test_no_wait_without_writes_or_controllers() -> None:
    api = _FakeApi(repeat(1))
    waits = _waits(api)
    waits.wait()
    looks = len(api.looks)
    waits.wait()
    assert len(api.looks) == looks
    api.writes += 1
    waits.end("td-one")
    waits.wait()
    assert len(api.looks) == looks
