"""Tests that the pool sends many requests in parallel, and abandons a request that cannot be answered any more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from harness.backends.any_cluster import request_pool
from harness.backends.any_cluster.request_pool import RequestPool
from harness.errors import InconclusiveError


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """Return an event that is set only after the test."""
    event = threading.Event()
    yield event
    event.set()


def no_watch() -> Callable[[], None]:
    raise AssertionError("nothing is late")


def test_all_requests_are_sent_within_the_size() -> None:
    lock, together, most = threading.Lock(), 0, 0

    def ask(number: int) -> int:
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        with lock:
            together -= 1
        return -number

    assert dict(RequestPool(3, no_watch).each(ask, range(100))) == {number: -number for number in range(100)}
    assert 1 <= most <= 3


def test_there_are_no_more_threads_than_its_size() -> None:
    threads: set[threading.Thread] = set()
    list(RequestPool(3, no_watch).each(lambda _number: threads.add(threading.current_thread()), range(100)))
    assert 1 <= len(threads) <= 3


def test_error_of_a_request_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(RequestPool(3, no_watch).each(lambda number: 1 // number, [1, 0, 2]))


def test_late_request_is_abandoned_when_the_watch_raises(
    never: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_pool, "LATE", 0.05)
    monkeypatch.setattr(request_pool, "LOOK", 0.01)
    looks = iter([None, None, InconclusiveError("node b1 is gone")])

    def look() -> None:
        if (error := next(looks)) is not None:
            raise error

    seen = []
    with pytest.raises(InconclusiveError, match="node b1 is gone"):
        seen.extend(RequestPool(1, lambda: look).each(lambda late: late and never.wait(), [False, True, True]))
    assert next(looks, "no more") == "no more"


def test_late_answer_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_pool, "LATE", 0.05)
    monkeypatch.setattr(request_pool, "LOOK", 0.01)
    asked = threading.Event()
    made = RequestPool(1, lambda: asked.set)
    assert list(made.each(lambda _item: asked.wait(5), ["a1"])) == [("a1", True)]


def test_no_request_starts_after_close() -> None:
    asked: list[str] = []
    made = RequestPool(1, no_watch)
    made.close()
    with pytest.raises(InconclusiveError, match="the run has ended"):
        list(made.each(asked.append, ["a1"]))
    assert asked == []
