"""Makes this process able to create network namespaces, as root or as an ordinary user.

Why in place and not by a re-exec: debuggers, pytest, and whoever called us keep their process. The price is that Linux
lets only a single-threaded process enter a user namespace, so this runs early. Before the process itself goes, a
forked child tries: a process that has entered a user namespace in which it may do nothing cannot come back.

An ordinary user's process also leaves the machine's netns, for one of its own with nothing but loopback: from inside a
user namespace nobody can return to a netns that the user namespace does not own, so no thread could go and come back.
What must be reachable for the machine's other programs goes over `outside_socket`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from harness.errors import HarnessError, UnavailableError
from harness.netns import userns_restrictions
from harness.netns.namespace import CLONE_NEWUSER, Namespace, move_home, unshare

_CAP_NET_ADMIN = 12
_CAP_SYS_ADMIN = 21
_OUTSIDE_SOCKETS = 4

_outside: list[
    int
] = []  # unbound TCP sockets (descriptors) that were made before this process left the machine's netns
_left = False


def enter() -> None:
    """Make this process able to create network namespaces and to rule over them. Idempotent.

    Root (CAP_SYS_ADMIN and CAP_NET_ADMIN) stays as it is. An ordinary user becomes root of a new user namespace, in
    which files keep their owners and nothing outside can be changed that could not be changed before, and goes to a
    netns of its own, in which loopback is up.
    Raises `UnavailableError` with the setting that forbids it and the remedy, and for a process with several threads.
    """
    raise_descriptor_limit()
    if able():
        return
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        raise UnavailableError(
            f"cannot enter a user namespace: this process already has {threads} threads, and Linux allows it to a "
            "single-threaded process only. Call harness.netns.sandbox.enter() earlier, or start the program under "
            "`unshare --user --map-root-user`, or as root."
        )
    _try_in_a_child()
    _leave()


def able() -> bool:
    """Return whether this thread can create and administer a netns; tries it."""
    held = _effective_capabilities()
    if not (held >> _CAP_NET_ADMIN & 1 and held >> _CAP_SYS_ADMIN & 1):
        return False
    with contextlib.suppress(HarnessError):
        Namespace.create().close()
        return True
    return False


def left() -> bool:
    """Return whether this process, or one that started it, has left the machine's netns, as an ordinary user's does."""
    return Path("/proc/self/uid_map").read_text(encoding="ascii").split()[-1] == "1"  # the user namespace that we make


def outside_socket() -> socket.socket:
    """An unbound IPv4 TCP socket in the netns in which this process was before `enter`, for the machine's programs.

    Raises `UnavailableError` when an ordinary user's process asks for more than four of them.
    """
    if not _left:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if not _outside:
        raise UnavailableError(f"all {_OUTSIDE_SOCKETS} sockets that were made outside the user namespace are taken")
    return socket.socket(fileno=_outside.pop())


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard one: each netns, server and probe is a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _effective_capabilities() -> int:
    status = Path("/proc/thread-self/status").read_text(encoding="ascii", errors="replace")
    (line,) = (line for line in status.splitlines() if line.startswith("CapEff:"))
    return int(line.split()[1], 16)


def _leave() -> None:
    """Go into a user namespace and a netns of our own."""
    global _left  # noqa: PLW0603  where a process is, is a fact about the process
    _outside.extend(socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach() for _ in range(_OUTSIDE_SOCKETS))
    for _, step in _STEPS:
        step()
    _left = True


def _enter_user_namespace() -> None:
    """Become root of a new user namespace: user and group map to 0, all others to nobody."""
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/uid_map").write_text(f"0 {user} 1\n", encoding="ascii")
    Path("/proc/self/setgroups").write_text("deny\n", encoding="ascii")  # Linux 3.19: else gid_map is refused
    Path("/proc/self/gid_map").write_text(f"0 {group} 1\n", encoding="ascii")


def _loopback_up() -> None:
    """Three lines of ioctl, as every command of an ordinary user comes by: 0.2 ms, and 0.1 s to import pyroute2."""
    request = struct.pack("16sH14x", b"lo", 0x1)  # struct ifreq: IFF_UP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, request)  # SIOCSIFFLAGS


_STEPS: tuple[tuple[str, Callable[[], None]], ...] = (
    ("user namespace", _enter_user_namespace),
    ("network namespace", move_home),
    ("loopback", _loopback_up),
)


def _try_in_a_child() -> None:
    """Raise `UnavailableError` if a child of this process cannot do what this process is about to do."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _attempt(writer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read().decode("ascii")
    os.waitpid(child, 0)
    step, _, number = text.partition(":")
    if step != "done":
        readings = userns_restrictions.read(step or "user namespace", int(number or errno.EPERM))
        raise UnavailableError(userns_restrictions.explain(readings))


def _attempt(writer: int) -> None:
    """In the child: take each step, and write the one that failed with its errno, or "done"."""
    for name, step in _STEPS:
        try:
            step()
        except OSError as error:
            os.write(writer, f"{name}:{error.errno}".encode("ascii"))
            return
    os.write(writer, b"done")
