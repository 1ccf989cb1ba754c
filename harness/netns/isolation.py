"""Rooms isolate one node's programs, with mounts, a host name and a control group that only they share.

A netns isolates only the network. But agents of data planes also pin maps in a bpffs, attach programs to a control
group, create sockets in /run and read the host name. On one machine, the agents of two nodes would conflict.

A keeper process creates the room. It reads from a pipe that closes when this process ends for any reason. Then the
keeper kills all processes in the control group and removes the group. A second, idle process keeps the room's
namespaces open. Programs enter the namespaces through `Room.entering`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence

OWN: Mapping[str, str] = {
    "mounts": "mounts that no other node sees",
    "bpffs": "a bpffs at /sys/fs/bpf",
    "cgroup2": "a control group that is the top of /sys/fs/cgroup",
    "run": "an empty tmpfs at /run",
    "hostname": "the node's name as host name",
}
"""The possible parts of a room, with their meanings. Every part includes `mounts`."""

_PARTS = "import ctypes, json, os, select, signal, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"

# Arguments: the host name, and the names of parts. The program prints a line of JSON: the namespaces to join, or the
# error.
_KEEPER = (
    _PARTS
    + """
def insist(what, failed):
    if failed:
        number = ctypes.get_errno()
        print(json.dumps({"errno": number, "what": what}), flush=True)
        os._exit(1)

def mount(kind, place, flags=0):
    insist(f"mount {kind} at {place}", libc.mount(kind.encode(), place.encode(), kind.encode(), flags, None))

def mount_groups():
    mount("tmpfs", "/sys/fs/cgroup")  # between: no filesystem is mounted on itself
    mount("cgroup2", "/sys/fs/cgroup")

name, wanted = sys.argv[1], sys.argv[2:]
insist("have mounts of one's own", libc.unshare(0x20000 | 0x4000000))  # CLONE_NEWNS | CLONE_NEWUTS
mount("none", "/", 0x4000 | 0x40000)  # MS_REC | MS_PRIVATE
if "hostname" in wanted:
    insist(f"set host name {name}", libc.sethostname(name.encode(), len(name.encode())))
if "bpffs" in wanted:
    mount("bpf", "/sys/fs/bpf")
if "run" in wanted:
    mount("tmpfs", "/run")
group = None
if "cgroup2" in wanted:
    mount_groups()
    own = next(line for line in open("/proc/self/cgroup") if line.startswith("0::")).strip()[3:]
    group = f"trafficdist-{os.getpid()}"
    try:
        above = os.open("/sys/fs/cgroup" + own, os.O_RDONLY | os.O_DIRECTORY)
        os.mkdir(group, dir_fd=above)
    except OSError as error:
        ctypes.set_errno(error.errno)
        insist("make a control group", True)

def written(file, text):
    with open(os.open(f"{group}/{file}", os.O_WRONLY, dir_fd=above), "w") as opened:
        opened.write(text)

def removed(name, above):
    here = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=above)
    for each in os.scandir(here):
        if each.is_dir(follow_symlinks=False):
            removed(each.name, here)
    os.close(here)
    os.rmdir(name, dir_fd=above)

inside = os.fork()
if inside == 0:
    libc.prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    if group:
        written("cgroup.procs", str(os.getpid()))
    insist("have control groups of one's own", libc.unshare(0x2000000))  # CLONE_NEWCGROUP
    if group:
        mount_groups()  # the room's group is now the top of the new namespace
    print(json.dumps({"pid": os.getpid(), "grouped": bool(group)}), flush=True)
    while True:
        signal.pause()
sys.stdin.read()  # until the harness has closed the room or has ended
os.kill(inside, signal.SIGKILL)
os.waitpid(inside, 0)
if group:
    try:
        written("cgroup.kill", "1")  # Linux 5.14
    except OSError:
        pass
    events = os.open(f"{group}/cgroup.events", os.O_RDONLY, dir_fd=above)
    poll = select.poll()
    poll.register(events, select.POLLPRI)
    while b"populated 1" in os.pread(events, 4096, 0) and poll.poll(5000):
        pass
    removed(group, above)
"""
)

# Arguments: the process in the room, 1 if the room has a control group, then the program to execute.
_ENTER = (
    _PARTS
    + """
room, grouped, command, here = f"/proc/{sys.argv[1]}/", sys.argv[2] == "1", sys.argv[3:], os.getcwd()
try:
    if grouped:
        with open(room + "root/sys/fs/cgroup/cgroup.procs", "w") as opened:
            opened.write(str(os.getpid()))
    for each in [os.open(f"{room}ns/{kind}", os.O_RDONLY) for kind in ("cgroup", "uts", "mnt")]:
        if libc.setns(each, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        os.close(each)
    os.chdir(here)
except OSError as error:
    print(f"cannot enter the room of its node: {error}", file=sys.stderr)
    os._exit(127)
try:
    os.execvp(command[0], command)
except OSError as error:
    print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr)
    os._exit(127)
"""
)
_INTERPRETER = (sys.executable, "-I", "-S", "-c")


class Room:
    """The room of one node. The room ends with `close`, or with this process."""

    def __init__(self, name: str, wanted: Collection[str]) -> None:
        """Create a room with these parts of `OWN` and this host name. Raises `OSError`."""
        self._keeper = subprocess.Popen(  # noqa: S603  our own program
            [*_INTERPRETER, _KEEPER, name, *wanted],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # only the harness handles Ctrl-C
        )
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline()
        told = json.loads(line or '{"errno": 0, "what": "keep a room"}')
        if "errno" in told:
            self.close()
            raise OSError(told["errno"], f"cannot {told['what']}: {os.strerror(told['errno'])}")
        self._joined = [str(told["pid"]), str(int(told["grouped"]))]

    def entering(self, command: Sequence[str]) -> list[str]:
        """Return a command line that enters the room and runs `command` there."""
        return [*_INTERPRETER, _ENTER, *self._joined, *command]

    def close(self) -> None:
        """Kill all processes in the room's control group, and remove the room. Idempotent."""
        self._keeper.communicate()
