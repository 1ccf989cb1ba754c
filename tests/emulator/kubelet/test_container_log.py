"""A container log keeps timestamped lines up to a size limit."""

from __future__ import annotations

import asyncio
import threading

from emulator.kubelet.container_log import ContainerLog, LogLine


def texts(log: ContainerLog, **which: int) -> list[bytes]:
    return [line.text for line in log.lines(**which)]


def test_bytes_become_lines_of_their_streams() -> None:
    log = ContainerLog()
    log.write(b"one\ntw")
    log.write(b"bad\n", "stderr")
    log.write(b"o\nthree")
    assert [(line.stream, line.text) for line in log.lines()] == [
        ("stdout", b"one"),
        ("stderr", b"bad"),
        ("stdout", b"two"),
    ]
    log.end()
    last = log.lines()[-1]
    assert (last.stream, last.text, last.whole) == ("stdout", b"three", False)


def test_lines_are_shown_with_their_times_on_request() -> None:
    line = LogLine(1_795_485_600_123_456_789, "stdout", b"text")
    assert line.shown() == b"text\n"
    assert line.shown(timestamps=True) == b"2026-11-24T02:00:00.123456789Z text\n"


def test_long_line_is_kept_in_parts() -> None:
    log = ContainerLog()
    log.write(b"x" * 40_000 + b"\nend\n")
    assert [(len(line.text), line.whole) for line in log.lines()] == [
        (16384, False),
        (16384, False),
        (7232, True),
        (3, True),
    ]
    assert b"".join(line.shown() for line in log.lines(tail=2)) == b"x" * 40_000 + b"\nend\n"


def test_tail_and_time_choose_lines() -> None:
    log = ContainerLog()
    log.write(b"1\n2\n3\n")
    assert texts(log, tail=2) == [b"2", b"3"]
    assert texts(log, tail=0) == []
    assert texts(log, tail=9) == [b"1", b"2", b"3"]
    second = log.lines()[0].at // 10**9
    assert texts(log, since=second) == [b"1", b"2", b"3"]
    assert texts(log, since=second + 5) == []


def test_oldest_lines_are_dropped_when_the_log_is_full() -> None:
    log = ContainerLog(most=1000)
    for number in range(100):
        log.write(b"%d\n" % number)
    assert texts(log)[-1] == b"99"
    assert 10 <= len(log.lines()) < 20


def test_follower_sees_present_and_later_lines_to_the_end() -> None:
    async def follow() -> None:
        log = ContainerLog()
        log.write(b"before\n")
        following = log.follow()
        assert (await anext(following)).text == b"before"
        later = asyncio.create_task(anext(following))
        done, _ = await asyncio.wait([later], timeout=0.01)
        assert not done, "the follower waits while there are no new lines"
        threading.Thread(target=log.write, args=(b"after\n",)).start()
        assert (await later).text == b"after"
        log.end()
        assert [line async for line in following] == []

    asyncio.run(asyncio.wait_for(follow(), 10))


def test_follower_is_woken_by_the_end() -> None:
    async def follow() -> None:
        log = ContainerLog()
        waiting = asyncio.create_task(anext(log.follow(), None))
        await asyncio.sleep(0)
        threading.Thread(target=log.end).start()
        assert await waiting is None

    asyncio.run(asyncio.wait_for(follow(), 10))
