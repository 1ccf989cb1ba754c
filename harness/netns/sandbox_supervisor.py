"""The program that supervises a sandbox: it creates the namespaces, starts the programs, and ends them all.

It runs outside the sandbox (`harness.netns.isolation`) and uses only the standard library. When the harness closes its
socket or ends, this program kills the init process of the sandbox's PID namespace, and the kernel then kills all
processes of the sandbox, even detached ones that ignore signals. If this program is killed, the kernel kills init. A
request is JSON in a memory file. The harness passes descriptors of this file and of a pipe for replies (lines of JSON).
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import time
from typing import Any

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWPID, _NEWNET = 0x20000, 0x2000000, 0x4000000, 0x20000000, 0x40000000
_BIND, _REC, _PRIVATE, _DETACH = 0x1000, 0x4000, 0x40000, 2  # MS_..., MNT_DETACH
_OPEN_TREE, _MOVE_MOUNT, _HERE = 428, 429, -100  # system calls since Linux 5.2; AT_FDCWD
_CLOEXEC = 0x40000000  # MSG_CMSG_CLOEXEC
_LOOK, _SOON = 0.25, 0.05  # seconds between two measurements of resources; the second if half of a limit is used
_FIRST_PIDS = 301  # the kernel reuses no PID below this number
_PID_MAX_OF_NAMESPACE = (6, 14)  # the first kernel in which pid_max is a setting of each PID namespace
_DESCRIPTORS = 65536
_PAGE = os.sysconf("SC_PAGE_SIZE")

_libc = ctypes.CDLL(None, use_errno=True)


class SandboxError(OSError):
    """A step of the setup failed. `strerror` names the step: it completes "cannot ..."."""


def insist(step: str, failed: int) -> None:
    if failed:
        raise SandboxError(ctypes.get_errno(), step)


def mount(kind: str, path: str) -> None:
    insist(f"mount {kind} at {path}", _libc.mount(kind.encode(), os.fsencode(path), kind.encode(), 0, None))


def _mount_groups() -> None:
    mount("tmpfs", "/sys/fs/cgroup")  # the kernel does not mount cgroup2 directly on the same cgroup2
    mount("cgroup2", "/sys/fs/cgroup")


def _open_tree(path: bytes, flags: int = 0) -> int:
    """Return a descriptor of a detached copy of a mount, or -1."""
    copied: int = _libc.syscall(_OPEN_TREE, _HERE, path, 1 | os.O_CLOEXEC | flags)  # OPEN_TREE_CLONE
    return copied


def _move_mount(tree: int, path: bytes) -> None:
    _libc.syscall(_MOVE_MOUNT, tree, b"", _HERE, path, 4)  # MOVE_MOUNT_F_EMPTY_PATH
    os.close(tree)


def _copy_settings() -> None:
    """Replace the settings below /proc/sys, except those of the netns, with copies that programs can change."""
    for top in (f"/proc/sys/{each}" for each in os.listdir("/proc/sys") if each != "net"):
        random = _open_tree(f"{top}/random".encode())
        folders, contents = [], {}
        for folder, below, files in os.walk(top):
            below[:] = [each for each in below if each not in ("random", "binfmt_misc")]  # the second is a mount
            folders += [f"{folder}/{each}" for each in below]
            for path in (f"{folder}/{each}" for each in files):
                try:
                    with open(path, "rb") as file:
                        contents[path] = file.read()
                except OSError:  # the file is write-only
                    contents[path] = b""
        mount("tmpfs", top)
        for folder in folders:
            os.mkdir(folder)
        for path, content in contents.items():
            with open(path, "wb") as file:
                file.write(content)
        if random >= 0:
            os.mkdir(f"{top}/random")
            _move_mount(random, f"{top}/random".encode())


class ControlGroup:
    def __init__(self) -> None:
        _mount_groups()
        with open("/proc/self/cgroup", encoding="ascii") as file:
            own = next(line for line in file if line.startswith("0::")).strip()[3:]
        self._name = f"trafficdist-{os.getpid()}"
        try:
            self._above = os.open("/sys/fs/cgroup" + own, os.O_RDONLY | os.O_DIRECTORY)
            os.mkdir(self._name, dir_fd=self._above)
        except OSError as error:
            raise SandboxError(error.errno, "create a control group") from error

    def write(self, file: str, text: str) -> None:
        with open(os.open(f"{self._name}/{file}", os.O_WRONLY, dir_fd=self._above), "w", encoding="ascii") as opened:
            opened.write(text)

    def remove(self) -> None:
        """Kill the processes in the group, which may be outside of the PID namespace, and remove the group."""
        with contextlib.suppress(OSError):
            self.write("cgroup.kill", "1")  # Linux 5.14
        events = os.open(f"{self._name}/cgroup.events", os.O_RDONLY, dir_fd=self._above)
        poll = select.poll()
        poll.register(events, select.POLLPRI)
        while b"populated 1" in os.pread(events, 4096, 0) and poll.poll(5000):
            pass
        _remove_groups(self._name, self._above)


def _remove_groups(name: str, above: int) -> None:
    here = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=above)
    for each in os.scandir(here):
        if each.is_dir(follow_symlinks=False):
            _remove_groups(each.name, here)
    os.close(here)
    os.rmdir(name, dir_fd=above)


class Supervisor:
    """Runs one sandbox and its programs, in a single thread."""

    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self._control, self._limits, self._folder = control, settings["limits"], settings["folder"]
        self._programs: dict[int, tuple[int, int]] = {}  # the pipe for the exit code, and the log, by PID
        self._orders = 0  # the number of kill orders that init has not answered yet
        self._clearing: list[int] = []  # the pipes of requests that wait until all programs have ended
        self._later: list[tuple[Any, ...]] = []  # requests to start a program, which wait until then too
        self._why = ""
        self._machine = os.open("/proc", os.O_PATH | os.O_DIRECTORY)  # the sandbox may have its own /proc
        self._descriptors = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY)
        wanted, name = settings["wanted"], settings["name"].encode()
        insist("create a mount namespace", _libc.unshare(_NEWNS | _NEWUTS))
        insist("mount none at /", _libc.mount(b"none", b"/", b"none", _REC | _PRIVATE, None))
        if settings["netns"] >= 0:
            self._replace_sys(settings["netns"])
            os.close(settings["netns"])
        if "hostname" in wanted:
            insist(f"set host name {settings['name']}", _libc.sethostname(name, len(name)))
        if "bpffs" in wanted:
            mount("bpf", "/sys/fs/bpf")
        if "run" in wanted:
            mount("tmpfs", "/run")
        self._own_settings = "sysctls" in wanted
        self._group = ControlGroup() if "cgroup2" in wanted else None
        insist("create a PID namespace", _libc.unshare(_NEWPID))
        self.init, self._to_init, self._from_init = self._start_init()
        answer = json.loads(os.read(self._from_init, 4096) or b'{"errno": 0, "step": "start a sandbox"}')
        if "step" in answer:
            self._end(closed=True)
            raise SandboxError(answer["errno"], answer["step"])
        self._own_proc = answer["own_proc"]

    def _mounts(self) -> list[bytes]:
        mounts = os.open(f"{os.getpid()}/mountinfo", os.O_RDONLY, dir_fd=self._machine)
        with open(mounts, "rb") as file:
            return [line.split()[4].decode("unicode_escape").encode("latin-1") for line in file]

    def _replace_sys(self, netns: int) -> None:
        """Replace the machine's /sys, which root in the sandbox could remount, with that of the node's netns."""
        with open("/proc/self/uid_map", encoding="ascii") as file:
            if file.read().split()[-1] == "1":
                return
        below = [each for each in self._mounts() if each.startswith(b"/sys/")]
        below = [each for each in below if not any(each.startswith(other + b"/") for other in below)]
        kept = [_open_tree(each, 0x8000) for each in below]  # AT_RECURSIVE
        if any(each < 0 for each in kept):
            return
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        insist("enter the netns of the node", _libc.setns(netns, _NEWNET))
        insist("unmount /sys", _libc.umount2(b"/sys", _DETACH))
        mount("sysfs", "/sys")
        insist("leave the netns of the node", _libc.setns(home, _NEWNET))
        for path, tree in zip(below, kept, strict=True):
            _move_mount(tree, path)
        os.close(home)

    def _start_init(self) -> tuple[int, int, int]:
        orders, to_init = os.pipe()
        from_init, answers = os.pipe()
        child = os.fork()
        if child:
            os.close(orders)
            os.close(answers)
            return child, to_init, from_init
        os.close(to_init)
        os.close(from_init)
        self._control.close()
        try:
            answer: dict[str, Any] = {"own_proc": self._set_up()}
        except SandboxError as error:
            answer = {"errno": error.errno, "step": error.strerror}
        os.write(answers, json.dumps(answer).encode())
        while order := os.read(orders, 1):
            _kill_all()
            os.write(answers, order)
        os._exit(0)

    def _set_up(self) -> bool:
        """Prepare the sandbox, in its init process. Return whether the sandbox has its own /proc."""
        _libc.prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps orphans
        if self._group:
            self._group.write("cgroup.procs", "0")
            insist("create a control group namespace", _libc.unshare(_NEWCGROUP))
            _mount_groups()  # the sandbox's group is now the top of the new namespace
        own_proc = self._mount_proc()
        if self._own_settings:
            _copy_settings()
        return own_proc

    def _mount_proc(self) -> bool:
        try:
            mount("proc", "/proc")
        except SandboxError:
            return False  # a container hides parts of /proc, so the kernel allows no other
        if tuple(map(int, os.uname().release.split(".")[:2])) >= _PID_MAX_OF_NAMESPACE and self._limits["processes"]:
            with open("/proc/sys/kernel/pid_max", "w", encoding="ascii") as file:
                file.write(str(self._limits["processes"] + _FIRST_PIDS))
        return True

    def serve(self) -> None:
        """Process requests until the harness closes the sandbox or ends. Then remove the sandbox."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        poll = select.poll()
        for each in (self._control.fileno(), reader, self._from_init):
            poll.register(each, select.POLLIN)
        wait: float | None = None
        closed = False
        while True:
            ready = dict(poll.poll(None if wait is None else wait * 1000))
            if reader in ready:
                os.read(reader, 4096)
            self._reap()
            if self._from_init in ready and not self._cleared():
                break
            if self._control.fileno() in ready:
                message, descriptors, _, _ = socket.recv_fds(self._control, 64, 8, _CLOEXEC)
                if not descriptors:
                    closed = message == b"close"
                    break
                self._answer(descriptors)
            wait = self._watch()
        self._end(closed=closed)

    def _answer(self, descriptors: list[int]) -> None:
        file, reply, *others = descriptors
        with open(file, encoding="ascii") as opened:
            opened.seek(0)
            request = json.load(opened)
        match request["what"]:
            case "start" if self._orders:
                self._later.append((request, reply, *others))  # otherwise it would be killed with the others
                return
            case "start":
                self._start(request, reply, *others)
                return
            case "clear":
                self._clearing.append(reply)
                self._order()
                return
            case "stop":
                self._signal(request["pid"], request["signal"])
            case "show":
                self._reply(reply, {"failed": self._show(others[0], request["path"])})
        for each in (reply, *others):
            os.close(each)

    def _reply(self, reply: int, content: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the harness may no longer wait for it
            os.write(reply, json.dumps(content).encode() + b"\n")

    def _show(self, netns: int, path: str) -> int:
        os.chdir(self._descriptors)
        failed = _libc.mount(str(netns).encode(), os.fsencode(path), None, _BIND, None)
        return ctypes.get_errno() if failed else 0

    def _start(self, request: dict[str, Any], reply: int, log: int, *netns: int) -> None:
        try:
            child = os.fork()
        except OSError as error:
            self._reply(reply, {"failed": error.errno})
            os.close(reply)
            os.close(log)
        else:
            if child == 0:
                self._become(request, log, *netns)
            self._programs[child] = reply, log
            self._reply(reply, {"pid": child})
        for each in netns:
            os.close(each)

    def _become(self, request: dict[str, Any], log: int, *netns: int) -> None:
        step = "enter the sandbox of its node"
        try:
            os.setsid()  # only the harness handles Ctrl-C
            nothing = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            for each in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
                signal.signal(each, signal.SIG_DFL)
            self._join(netns)
            os.chdir(request["folder"])
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            files = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            step = f"run {request['command'][0]}"
            os.execvpe(request["command"][0], request["command"], request["environment"])  # noqa: S606  judged program
        except (OSError, ValueError) as error:
            why = os.strerror(error.errno or 0) if isinstance(error, OSError) else error
            os.write(2, f"cannot {step}: {why}\n".encode(errors="surrogateescape"))
        finally:
            os._exit(127)

    def _join(self, netns: tuple[int, ...]) -> None:
        joined = [(each, _NEWNET) for each in netns]
        if self._group:
            self._group.write("cgroup.procs", "0")
            joined.append((os.open(f"{self.init}/ns/cgroup", os.O_RDONLY, dir_fd=self._machine), _NEWCGROUP))
        for each, kind in joined:
            insist("enter a namespace", _libc.setns(each, kind))

    def _signal(self, pid: int, number: int) -> None:
        """Send a signal to a program. SIGKILL also goes to its process group, once the group exists."""
        with contextlib.suppress(OSError):
            if pid in self._programs:  # so the PID is not that of another process
                os.kill(pid, number)
        with contextlib.suppress(OSError):
            if number == signal.SIGKILL:
                os.killpg(pid, number)

    def _reap(self) -> None:
        for pid, (reply, log) in list(self._programs.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._programs[pid]
                self._reply(reply, {"code": os.waitstatus_to_exitcode(status), "why": self._why})
                os.close(reply)
                os.close(log)

    def _order(self) -> None:
        self._orders += 1
        os.write(self._to_init, b"1")

    def _cleared(self) -> bool:
        """If all programs have ended, reply to the requests that wait for their end. Return False if init has ended."""
        answers = len(os.read(self._from_init, 4096))
        self._orders -= answers
        if not answers or self._orders:
            return bool(answers)
        self._reap()
        for each in self._clearing:
            self._reply(each, {})
            os.close(each)
        self._clearing.clear()
        self._why = ""
        later, self._later = self._later, []
        for request in later:
            self._start(*request)
        return True

    def _watch(self) -> float | None:
        """End all programs if they reach a limit. Return the seconds until the next check, or None for no check."""
        if self._why or not any(self._limits.values()) or not (used := self._used()):
            return None
        for name, limit in self._limits.items():
            if limit and used[name] >= limit:
                self._why = name
                self._order()
                return None
        half = any(limit and used[name] * 2 >= limit for name, limit in self._limits.items())
        return _SOON if half else _LOOK

    def _used(self) -> dict[str, float]:
        """Return the number of threads, and the megabytes of memory and of logs. Return {} if no process runs."""
        pids = [each for each in os.listdir("/proc") if each.isdigit() and each != "1"]
        if not self._own_proc:
            pids = [str(each) for each in self._programs]
        processes = private = 0
        shared = [0]
        for each in pids:
            try:
                with open(f"/proc/{each}/statm", encoding="ascii") as file:
                    _, resident, common = map(int, file.read().split()[:3])
                processes += os.stat(f"/proc/{each}/task").st_nlink - 2
            except (OSError, ValueError):
                continue
            private += resident - common
            shared.append(common)
        logs = [os.fstat(log) for _, log in self._programs.values()]
        sizes = {(log.st_dev, log.st_ino): log.st_size for log in logs}
        memory = (private + max(shared)) * _PAGE
        if self._limits["memory"] and memory >= self._limits["memory"] * 1e6:
            memory = min(memory, sum(map(_proportional, pids)))
        return {"processes": processes, "memory": memory / 1e6, "log": sum(sizes.values()) / 1e6} if pids else {}

    def _end(self, *, closed: bool) -> None:
        os.kill(self.init, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()  # the kernel lets init end after all others
        if self._group:
            self._group.remove()
        if self._folder and not closed:
            for path in reversed(self._mounts()):
                if path.startswith(os.fsencode(self._folder)):  # a mount prevents the removal of a file
                    _libc.umount2(path, _DETACH)
            shutil.rmtree(self._folder, ignore_errors=True)


def _proportional(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except OSError:  # the process has ended
        return 0


def _kill_all() -> None:
    """Kill all processes of the sandbox except init, which calls this. Wait until they have ended."""
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(-1, signal.SIGKILL)
            time.sleep(0.001)


def main() -> None:
    settings = json.loads(sys.argv[1])
    control = socket.socket(fileno=settings["control"])
    control.set_inheritable(False)
    try:
        supervisor = Supervisor(control, settings)
    except SandboxError as error:
        control.send(json.dumps({"errno": error.errno, "step": error.strerror}).encode())
        return
    control.send(json.dumps({"pid": supervisor.init}).encode())
    supervisor.serve()
