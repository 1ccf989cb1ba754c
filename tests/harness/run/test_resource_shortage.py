"""Tests that a shortage of a resource is recognized wherever its error occurs, and that other errors are not."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from harness.checks.check import require
from harness.checks.machine import LIMITS, process_limit
from harness.errors import DistrustError, InconclusiveError, UnavailableError
from harness.judging.history import History, read_parts
from harness.plugin.judging import translated
from harness.run.resource_shortage import shortage, why_it_cannot_continue


def caused_by(error: BaseException) -> BaseException:
    """Return this error as the cause of another one, as libraries do."""
    try:
        try:
            raise error
        except BaseException as inner:
            raise KeyError("oops") from inner
    except KeyError as outer:
        return outer


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "the disk is full"),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (OSError(errno.ENFILE, "Too many open files in system"), "fs.file-max"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out of memory"),
        (MemoryError(), "out of memory"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), ""),  # from a probe
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), ""),  # from a socket
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), ""),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), ""),
        (RuntimeError("maximum recursion depth exceeded"), ""),
        (AssertionError("a1 reached b1"), ""),
    ],
    ids=repr,
)
def test_shortage_is_named(error: BaseException, said: str, wrapped: bool) -> None:
    found = shortage(caused_by(error) if wrapped else error)
    assert (said in found, bool(found)) == (True, bool(said))


def test_shortage_in_a_scenario_raises_a_one_line_distrust_error() -> None:
    with (
        pytest.raises(DistrustError, match=r"^this process cannot open more files \(ulimit -n\)[^\n]*$"),
        translated("call"),
    ):
        raise InconclusiveError("no answer") from OSError(errno.EMFILE, "Too many open files")


def test_process_that_cannot_be_forked_is_a_shortage() -> None:
    def fork() -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with pytest.raises(DistrustError, match="ulimit -u"), translated("setup"):
        fork()


def test_closed_output_pipe_ends_the_run_and_fails_no_scenario() -> None:
    assert "the reader of this run's output has closed it" in why_it_cannot_continue(
        BrokenPipeError(errno.EPIPE, "Broken pipe")
    )
    assert why_it_cannot_continue(KeyError("oops")) == ""


def test_low_file_limit_is_reported_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with pytest.raises(UnavailableError, match="can open only 64 files here, but a run needs 256: raise `ulimit -Hn`"):
        require([LIMITS], None)


def test_low_limit_of_address_space_is_reported_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    low = {resource.RLIMIT_AS: (400_000_000, 400_000_000)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: low.get(which, (-1, -1)))
    said = r"can use only 400 MB of address space here, but a run needs \d+: raise `ulimit -v`"
    with pytest.raises(UnavailableError, match=said):
        require([LIMITS], None)


def test_process_limit_does_not_apply_to_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert process_limit() is None


def test_history_of_a_disk_that_was_full_goes_on_after_the_last_whole_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(tmp_path / "history-main.jsonl", worker="main")
    history.write("change", what="the first")
    write, room = os.write, [10]

    def little(descriptor: int, data: bytes) -> int:
        """Write ten bytes, then fail with the error of a full disk."""
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[: room.pop()])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", little)
        with pytest.raises(OSError, match="No space"):
            history.write("change", what="too much")
    history.write("change", what="the second")
    history.close()
    records = read_parts([tmp_path / "history-main.jsonl"]).records
    assert [each.get("what") for each in records if each["kind"] == "change"] == ["the first", "the second"]
