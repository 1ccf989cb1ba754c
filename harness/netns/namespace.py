"""One network namespace, which a file descriptor keeps alive.

The kernel destroys a netns when its last descriptor, thread and socket are gone. So nothing remains after a crash or
`kill -9`, unlike with named namespaces, which are mounts. `setns` moves only the calling thread. `unshare` and `setns`
are called through ctypes, because Python provides them only since 3.12.
"""

import contextlib
import ctypes
import errno
import os
import resource
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from harness.errors import HarnessError, UnavailableError

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.unshare.argtypes = (ctypes.c_int,)
_libc.setns.argtypes = (ctypes.c_int, ctypes.c_int)
_OWN_NETNS = "/proc/thread-self/ns/net"

PROC = Path("/proc")


def processes_by_netns(proc: Path = PROC) -> dict[int, list[Path]]:
    """Return the folders in `proc` of all visible processes, keyed by the inode of their netns."""
    found: dict[int, list[Path]] = {}
    for process in proc.iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                found.setdefault((process / "ns/net").stat().st_ino, []).append(process)
    return found


def unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare({flags:#x}): {os.strerror(number)}")


def _setns(fd: int) -> None:
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns to the netns of descriptor {fd}: {os.strerror(number)}")


class _ThreadNetns:
    def __init__(self) -> None:
        self.fd = os.open(_OWN_NETNS, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        os.close(self.fd)


class _ThreadState(threading.local):
    """A thread's original netns, its number of nested `entered` blocks, and its last netns if it roams (see `roam`)."""

    home: _ThreadNetns | None = None
    depth: int = 0
    roams: bool = False
    last: "Namespace | None" = None

    def here(self) -> _ThreadNetns:
        """Return the thread's netns. Outside of `entered`, open it only once: opening takes as long as `setns`."""
        if self.depth > 0:
            return _ThreadNetns()
        if self.home is None:
            self.home = _ThreadNetns()
        return self.home


_place = _ThreadState()


def move_home() -> None:
    """Move the calling thread to a new netns permanently. Raises `OSError`."""
    unshare(CLONE_NEWNET)
    _place.home = None


def roam() -> None:
    """Let this thread stay in the netns in which it last created a socket. From now on, it may only create sockets."""
    _place.roams = True


class Namespace:
    """A network namespace that this process created or keeps open. It ends with `close`, or with this process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def create(cls) -> "Namespace":
        """Create an empty netns with a loopback device that is down. Raises `UnavailableError`."""
        home = _place.here()
        try:
            unshare(CLONE_NEWNET)
            try:
                return cls(os.open(_OWN_NETNS, os.O_RDONLY | os.O_CLOEXEC))
            finally:
                _setns(home.fd)
        except OSError as error:
            raise _refused("create a network namespace", error) from error

    @classmethod
    def of(cls, process: Path) -> "Namespace":
        return cls(os.open(process / "ns/net", os.O_RDONLY | os.O_CLOEXEC))

    @property
    def fd(self) -> int:
        if self._fd < 0:
            raise HarnessError("this netns is closed: its network was closed, or its pod was removed")
        return self._fd

    @property
    def closed(self) -> bool:
        return self._fd < 0

    @property
    def proc_path(self) -> str:
        """A path that other processes of the same user can enter while this process runs: `nsenter --net=PATH`."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    @property
    def inode(self) -> int:
        """The kernel's number of the netns, as shown by `ls -l /proc/PID/ns/net` and `lsns`."""
        return os.fstat(self.fd).st_ino

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run the block inside the netns, and then leave it. A thread started in the block remains in the netns."""
        before = _place.here()
        try:
            _place.depth += 1
            _setns(self.fd)
            yield
        finally:
            _setns(before.fd)
            _place.depth -= 1
            _place.last = None

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, proto: int = 0) -> socket.socket:
        """Create a socket in this netns. Raises `OSError`, or `UnavailableError` if no descriptor is free."""
        if not _place.roams:
            with self.entered():
                return _open(family, kind, proto)
        fd = self.fd
        if _place.last is not self:
            _setns(fd)
            _place.last = self
        return _open(family, kind, proto)

    def close(self) -> None:
        """Close the descriptor. The kernel destroys the netns once it has no threads and no sockets. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Namespace(fd={self._fd})"

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            self.close()


def _open(family: int, kind: int, proto: int) -> socket.socket:
    try:
        return socket.socket(family, kind, proto)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise _refused("open a socket", error) from error
        raise


def _refused(what: str, error: OSError) -> UnavailableError:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = Path("/proc/sys/user/max_net_namespaces")
    reasons = {
        errno.EPERM: "this process has no permission; call harness.netns.sandbox.enter() first",
        errno.EMFILE: f"all {soft} file descriptors of this process are in use; raise the limit: ulimit -n",
        errno.ENFILE: "all file descriptors of this machine are in use; raise the sysctl fs.file-max",
        errno.ENOSPC: f"user.max_net_namespaces is reached ({_read(limit)}); raise it with sysctl -w",
        errno.EINVAL: "this kernel has no network namespaces (CONFIG_NET_NS)",
        errno.ENOMEM: "the kernel has no memory left for a network namespace",
    }
    reason = reasons.get(error.errno or 0, error.strerror or str(error))
    return UnavailableError(f"cannot {what}: {reason}")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        return f"unreadable: {error.strerror}"
