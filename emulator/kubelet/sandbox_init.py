"""The first process of a sandbox. It creates the sandbox and starts programs. It only uses the standard library.

The arguments are a socket and a JSON description of the sandbox: host name, files (content by path) and programs. The
process replies with an empty line or an error message. Each later request either starts a program and carries four
descriptors (stdin, stdout, stderr, report), or sends a signal. A line on the report descriptor contains the process id,
or `!` and the error message. When the program has ended, a second line contains its exit code. The process ends when
the other end of the socket is closed. The kernel then kills all processes in its PID namespace.

The root is a new tmpfs rather than the machine's root with mounts over it, so that a forgotten mount exposes nothing.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import select
import signal
import socket
import sys
import termios
from collections.abc import Mapping
from typing import Any

_SHOWN = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix", "gnu")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {
    "dev/fd": "/proc/self/fd",
    "dev/stdin": "fd/0",
    "dev/stdout": "fd/1",
    "dev/stderr": "fd/2",
    "var/run": "/run",
    "var/tmp": "/tmp",  # noqa: S108  of the sandbox
    "root": "/tmp",  # noqa: S108
}
_WRITABLE = ("tmp", "run", "dev/shm")
_WRITABLE_OPTIONS = "size=64m,mode=1777"
_NOBODY = 65534
_CLONE = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000  # mounts, host name, IPC, process ids
_NOSUID, _NODEV, _BIND, _DETACH = 0x2, 0x4, 0x1000 | 0x4000, 0x2
_PRIVATE = 0x4000 | 0x40000
_PIVOT_ROOT = {"x86_64": 155, "s390x": 217, "ppc64le": 203}  # 41 on architectures with generic system call numbers
_MOUNT_SETATTR = 442  # Linux 5.12
_MESSAGE = 1 << 20  # maximum size of a request in bytes

libc = ctypes.CDLL(None, use_errno=True)


def insist(what: str, result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")


def mount(kind: str, place: str, options: str = "", flags: int = 0) -> None:
    """Mount a file system of type `kind`. With `_BIND`, bind-mount the file or folder `kind`."""
    data = options.encode() or None
    insist(f"mount {kind} at {place}", libc.mount(kind.encode(), place.encode(), kind.encode(), flags, data))


def make_root(files: Mapping[str, str], programs: Mapping[str, str]) -> None:
    mount("none", "/", flags=_PRIVATE)
    mount("tmpfs", "/tmp", "mode=755", _NOSUID)  # noqa: S108  any folder will do
    os.chdir("/tmp")  # noqa: S108
    for name in _SHOWN:
        if os.path.islink(f"/{name}"):  # noqa: PTH114  without pathlib it starts sooner
            os.symlink(os.readlink(f"/{name}"), name)  # noqa: PTH115, PTH211
        elif os.path.isdir(f"/{name}"):  # noqa: PTH112
            show(f"/{name}", name)
    show("/etc", ".etc")
    for name in ("dev", "etc", "proc", "var", *_WRITABLE):
        os.mkdir(name, 0o755)  # noqa: PTH102
    for name in _DEVICES:
        show_file(f"/dev/{name}", f"dev/{name}")
    for path, place in programs.items():
        show_file(place, path.removeprefix("/"))
    for path, target in _LINKS.items():
        os.symlink(target, path)  # noqa: PTH211
    own = {path.removeprefix("/") for path in files}
    for name in os.listdir(".etc"):  # noqa: PTH208
        if f"etc/{name}" not in own:
            os.symlink(f"/.etc/{name}", f"etc/{name}")  # noqa: PTH211
    for path, text in files.items():
        os.makedirs(os.path.dirname(f".{path}"), exist_ok=True)  # noqa: PTH103, PTH120
        with open(f".{path}", "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
            os.fchmod(file.fileno(), 0o755 if text.startswith("#!") else 0o644)
    mount("proc", "proc", flags=_NOSUID | _NODEV)
    enter_root()


def show(path: str, name: str) -> None:
    os.mkdir(name, 0o755)  # noqa: PTH102
    mount(path, name, flags=_BIND)


def show_file(path: str, name: str) -> None:
    os.close(os.open(name, os.O_CREAT))
    mount(path, name, flags=_BIND)


def enter_root() -> None:
    """Make the working directory the root, detach the old root, and make all but /tmp, /run and /dev/shm read-only."""
    number = _PIVOT_ROOT.get(platform.machine(), 41)
    insist("change the root", libc.syscall(number, b".", b"."))
    insist("detach the old root", libc.umount2(b".", _DETACH))
    os.chdir("/")
    read_only = (ctypes.c_uint64 * 4)(0x1 | _NOSUID, 0, 0, 0)  # struct mount_attr
    insist(
        "make the root read-only", libc.syscall(_MOUNT_SETATTR, -100, b"/", 0x8000, read_only, ctypes.sizeof(read_only))
    )
    for name in _WRITABLE:
        mount("tmpfs", f"/{name}", _WRITABLE_OPTIONS, _NOSUID | _NODEV)


def give_up_rights() -> None:
    """Drop all capabilities permanently. If this process is root, become nobody."""
    with_errors = [libc.prctl(24, number, 0, 0, 0) for number in range(64)]  # PR_CAPBSET_DROP
    insist("drop capabilities", with_errors[0])
    if os.getuid() == 0:
        try:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EPERM):  # root of a user namespace that has no other users
                raise
    insist("set no_new_privs", libc.prctl(38, 1, 0, 0, 0))  # PR_SET_NO_NEW_PRIVS


def execute(request: Mapping[str, Any], descriptors: list[int], failed: int) -> None:
    """Replace this process with the requested program, or write the error to `failed`."""
    try:
        os.setsid()
        for number in range(3):
            os.dup2(descriptors[number], number)
        if request["tty"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for each in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the kubelet's process blocks some signals
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        give_up_rights()
        os.chdir(request["folder"])
        os.execvpe(request["argv"][0], request["argv"], request["env"])  # noqa: S606
    except OSError as error:
        os.write(failed, f"{error.errno or 0} {error.strerror or error}".encode())
    os._exit(127)


class SandboxInit:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._reports: dict[int, int] = {}  # descriptors that receive exit codes, by process id
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._woken:
                    self._reap()
                elif not self._handle_request():
                    return

    def _handle_request(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, _MESSAGE, 4)
        for each in descriptors:
            os.set_inheritable(each, False)  # recv_fds ignores its flags
        if not data:
            return False
        request = json.loads(data)
        if "signal" not in request:
            self._start(request, descriptors)
        elif request["pid"] in self._reports:
            os.kill(request["pid"], request["signal"])
        return True

    def _start(self, request: Mapping[str, Any], descriptors: list[int]) -> None:
        reports = descriptors[3]
        reading, writing = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            execute(request, descriptors, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as failed:
            why = failed.read()
        for each in descriptors[:3]:
            os.close(each)
        if why:
            os.waitpid(pid, 0)
            write(reports, b"!" + why + b"\n")
            os.close(reports)
        else:
            self._reports[pid] = reports
            write(reports, b"%d\n" % pid)

    def _reap(self) -> None:
        os.read(self._woken, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if (reports := self._reports.pop(pid, None)) is not None:
                code = os.waitstatus_to_exitcode(status)
                write(reports, b"%d\n" % (code if code >= 0 else 128 - code))
                os.close(reports)


def write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, data)


def run(control: socket.socket, hostname: str, files: Mapping[str, str], programs: Mapping[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    insist("set the parent death signal", libc.prctl(1, 9, 0, 0, 0))  # PR_SET_PDEATHSIG, SIGKILL
    make_root(files, programs)
    name = hostname.encode()
    insist(f"set host name {hostname}", libc.sethostname(name, len(name)))
    control.send(b"\n")
    SandboxInit(control).run()


def main(descriptor: str, setup: str) -> None:
    """Create the sandbox in new namespaces, and wait until it ends. On failure, send the error and exit."""
    control = socket.socket(fileno=int(descriptor))
    control.set_inheritable(False)
    try:
        insist("create namespaces", libc.unshare(_CLONE))
        inside = os.fork()
        if inside == 0:
            run(control, **json.loads(setup))
            os._exit(0)
    except OSError as error:
        control.send(str(error.strerror).encode())
        os._exit(1)
    control.close()
    os.waitpid(inside, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
