"""Enables this process to create network namespaces, as root or as an ordinary user.

It changes the running process instead of starting a new one, so that debuggers, pytest and callers keep their process.
On Linux, only a single-threaded process can enter a user namespace, so commands call `enter` early. A forked child
tries the steps first, because a process cannot leave a user namespace in which it has no rights. An ordinary user's
process also moves to its own netns, because a thread in a user namespace cannot return to a netns that the user
namespace does not own. `outside_socket` returns sockets that the machine's other programs can reach.
"""

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
from harness.run_delay import RUN_DELAY

_CAP_NET_ADMIN = 12
_CAP_SYS_ADMIN = 21
_OUTSIDE_SOCKETS = 4

_outside: list[int] = []  # unbound TCP sockets (descriptors), created before this process left the machine's netns
_left = False


def enter() -> None:
    """Enable this process to create and administer network namespaces. Idempotent.

    An ordinary user becomes root in a new user namespace and moves to a new netns with loopback up. Files keep their
    owners. Raises `UnavailableError` if a setting of the machine forbids this, or if the process has several threads.
    """
    raise_descriptor_limit()
    if able():
        return
    RUN_DELAY.end()
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        raise UnavailableError(
            f"cannot enter a user namespace: this process already has {threads} threads, and Linux allows this only to "
            "a single-threaded process. Call harness.netns.sandbox.enter() earlier, or start the program under "
            "`unshare --user --map-root-user`, or as root."
        )
    _try_in_a_child()
    _leave()


def able() -> bool:
    """Return whether this thread can create and administer a netns."""
    status = Path("/proc/thread-self/status").read_text(encoding="ascii", errors="replace")
    held = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    if not (held >> _CAP_NET_ADMIN & 1 and held >> _CAP_SYS_ADMIN & 1):
        return False
    with contextlib.suppress(HarnessError):
        Namespace.create().close()
        return True
    return False


def left() -> bool:
    """Return whether this process or an ancestor has left the machine's netns, as an ordinary user's process does."""
    return Path("/proc/self/uid_map").read_text(encoding="ascii").split()[-1] == "1"  # our user namespace maps one user


def outside_socket() -> socket.socket:
    """Return an unbound IPv4 TCP socket in the machine's netns. An ordinary user gets four, then `UnavailableError`."""
    if not _left:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if not _outside:
        raise UnavailableError(f"all {_OUTSIDE_SOCKETS} sockets outside the user namespace are in use")
    return socket.socket(fileno=_outside.pop())


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard limit. Each netns, server and probe needs a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _leave() -> None:
    global _left  # noqa: PLW0603  where a process is, is a fact about the process
    _outside.extend(socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach() for _ in range(_OUTSIDE_SOCKETS))
    for _, step in _STEPS:
        step()
    _left = True


def _enter_user_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/uid_map").write_text(f"0 {user} 1\n", encoding="ascii")
    Path("/proc/self/setgroups").write_text("deny\n", encoding="ascii")  # Linux 3.19: required for gid_map
    Path("/proc/self/gid_map").write_text(f"0 {group} 1\n", encoding="ascii")


def _loopback_up() -> None:
    """Set loopback up with an ioctl, which takes 0.2 ms. Importing pyroute2 would delay each command by 0.1 s."""
    request = struct.pack("16sH14x", b"lo", 0x1)  # struct ifreq: IFF_UP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, request)  # SIOCSIFFLAGS


_STEPS: tuple[tuple[str, Callable[[], None]], ...] = (
    ("user namespace", _enter_user_namespace),
    ("network namespace", move_home),
    ("loopback", _loopback_up),
)


def _try_in_a_child() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for name, step in _STEPS:
                try:
                    step()
                except OSError as error:
                    os.write(writer, f"{name}:{error.errno}".encode("ascii"))
                    break
            else:
                os.write(writer, b"done")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read().decode("ascii")
    os.waitpid(child, 0)
    failed, _, number = text.partition(":")
    if failed != "done":
        readings = userns_restrictions.read(failed or "user namespace", int(number or errno.EPERM))
        raise UnavailableError(userns_restrictions.explain(readings))
