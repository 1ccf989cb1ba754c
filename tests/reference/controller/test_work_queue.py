"""When the queue returns a Service, and when the queue is idle."""

from __future__ import annotations

import pytest

from reference.controller.work_queue import FIRST_PERMANENT_RETRY, FIRST_RETRY, LONGEST_RETRY, RETRIES, WorkQueue

A, B = ("default", "a"), ("default", "b")


def test_keys_are_returned_once_in_the_order_they_were_added() -> None:
    queue = WorkQueue()
    for key in (A, B, A):
        queue.add(key)
    assert [queue.pop(0), queue.pop(0), queue.pop(0)] == [A, B, None]


def test_queue_is_idle_only_when_the_work_is_done() -> None:
    queue = WorkQueue()
    assert queue.is_idle
    queue.add(A)
    assert not queue.is_idle
    assert queue.pop(0) == A
    assert not queue.is_idle
    queue.done(A)
    assert queue.is_idle


def test_key_added_while_it_is_processed_is_queued_again() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.pop(0)
    queue.add(A)
    queue.done(A)
    assert not queue.is_idle
    assert queue.pop(0) == A


def test_delayed_key_is_returned_when_due() -> None:
    queue = WorkQueue()
    queue.add_at(A, 5.0)
    assert (queue.pop(4.9), queue.next_due(), queue.is_idle) == (None, 5.0, False)
    assert (queue.pop(5.0), queue.next_due()) == (A, None)


@pytest.mark.parametrize(("first", "second"), [(5.0, 3.0), (3.0, 5.0)])
def test_the_earlier_of_two_delays_counts(first: float, second: float) -> None:
    queue = WorkQueue()
    queue.add_at(A, first)
    queue.add_at(A, second)
    assert queue.next_due() == 3.0
    assert [queue.pop(10.0), queue.pop(10.0)] == [A, None]


def test_key_added_now_replaces_its_delayed_entry() -> None:
    queue = WorkQueue()
    queue.add_at(A, 5.0)
    queue.add(A)
    assert queue.pop(0) == A
    queue.done(A)
    assert (queue.pop(9.0), queue.next_due(), queue.is_idle) == (None, None, True)


def fail(queue: WorkQueue, now: float, *, retriable: bool) -> float | None:
    """Process A at time `now` with a failure, and return A's next due time."""
    queue.add(A)
    assert queue.pop(now) == A
    queue.retry(A, now, retriable=retriable)
    return queue.next_due()


@pytest.mark.parametrize(("retriable", "first"), [(True, FIRST_RETRY), (False, FIRST_PERMANENT_RETRY)])
def test_each_failure_doubles_the_wait(retriable: bool, first: float) -> None:
    queue = WorkQueue()
    waits = [fail(queue, 0.0, retriable=retriable) for _ in range(RETRIES)]
    assert waits == [min(LONGEST_RETRY, first * 2**n) for n in range(RETRIES)]


def test_key_that_keeps_failing_is_dropped() -> None:
    queue = WorkQueue()
    for _ in range(RETRIES):
        fail(queue, 0.0, retriable=True)
    assert fail(queue, 0.0, retriable=True) is None
    assert queue.is_idle


def test_success_resets_the_failure_count() -> None:
    queue = WorkQueue()
    fail(queue, 0.0, retriable=True)
    queue.pop(1.0)
    queue.done(A)
    assert fail(queue, 0.0, retriable=True) == FIRST_RETRY


def test_queue_is_idle_despite_retries_that_cannot_succeed() -> None:
    retriable, permanent = WorkQueue(), WorkQueue()
    fail(retriable, 0.0, retriable=True)
    fail(permanent, 0.0, retriable=False)
    assert (retriable.is_idle, permanent.is_idle) == (False, True)
    assert permanent.pop(FIRST_PERMANENT_RETRY) == A


def test_new_reason_makes_a_hopeless_key_count_as_busy() -> None:
    queue = WorkQueue()
    fail(queue, 0.0, retriable=False)
    queue.add_at(A, 50.0)
    assert not queue.is_idle
    assert queue.pop(FIRST_PERMANENT_RETRY) == A
