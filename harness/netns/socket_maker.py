"""Creates a client's sockets in the client's own control group, with a small helper process.

The kernel runs the BPF programs of a control group for all sockets that were created in the group. So a helper process
in the client's group and netns creates the sockets, as a container would, and passes them to this process.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable

from harness.errors import InconclusiveError
from harness.netns.fabric import NetworkPeer
from harness.netns.isolation import ProgramSandbox
from harness.netns.namespace import Namespace

OF_PODS = "pods"
SECONDS = 10.0  # time limit for the helper process to start or to create a socket, on a busy machine

_Control = socket.socket  # the method `socket` of the class hides the module

# Arguments: the group below the node's group ("" for the node's own group), and descriptors of a netns and a socket.
_PROGRAM = """
import ctypes, os, socket, sys
group, netns, control = sys.argv[1], int(sys.argv[2]), socket.socket(fileno=int(sys.argv[3]))
if group:
    os.makedirs("/sys/fs/cgroup/" + group, exist_ok=True)
    with open(f"/sys/fs/cgroup/{group}/cgroup.procs", "w") as opened:
        opened.write(str(os.getpid()))
libc = ctypes.CDLL(None, use_errno=True)
if libc.setns(netns, 0x40000000):  # CLONE_NEWNET
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
os.close(netns)
while asked := control.recv(64):
    try:
        with socket.socket(*map(int, asked.split())) as made:
            socket.send_fds(control, [b"0"], [made.fileno()])
    except OSError as error:
        control.send(str(error.errno).encode())
"""


class SocketMaker:
    """Creates sockets in a netns and in a control group of a sandbox. Thread-safe. The first call starts the helper."""

    def __init__(self, namespace: Namespace, sandbox: ProgramSandbox, group: str) -> None:
        """`group` is a path below the sandbox's control group, or "" for the sandbox's group itself."""
        self.namespace = namespace
        self._sandbox, self._group = sandbox, group
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[str], _Control] | None = None

    def socket(self, family: int, kind: int = socket.SOCK_STREAM, proto: int = 0) -> socket.socket:
        """Create a socket. Raises the kernel's `OSError`, or `InconclusiveError` if the helper process fails."""
        if family not in (socket.AF_INET, socket.AF_INET6):
            return self.namespace.socket(family, kind, proto)
        with self._lock:
            control = self._control()
            try:
                control.send(f"{family} {int(kind)} {proto}".encode())
                output, made, _, _ = socket.recv_fds(control, 64, 1)
            except OSError as error:
                raise self._broken(str(error)) from error
        if made:
            return socket.socket(family, kind, proto, fileno=made[0])
        if not output:
            raise self._broken("the process has ended")
        raise OSError(int(output), "the helper process could not create a socket")

    def _control(self) -> _Control:
        if self._running is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.settimeout(SECONDS)
            descriptors = (self.namespace.fd, theirs.fileno())
            command = [sys.executable, "-I", "-S", "-c", _PROGRAM, self._group, *map(str, descriptors)]
            with theirs:
                process = subprocess.Popen(  # noqa: S603  our own program
                    self._sandbox.entering(command),
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,  # only the harness handles Ctrl-C
                )
            self._running = (process, ours)
        return self._running[1]

    def _broken(self, why: str) -> InconclusiveError:
        output = self._end()
        return InconclusiveError(f"the helper process in control group /{self._group} failed: {output or why}")

    def _end(self) -> str:
        if self._running is None:
            return ""
        (process, control), self._running = self._running, None
        control.close()
        try:
            _, output = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            _, output = process.communicate()
        return (output.strip().splitlines() or [""])[-1]

    def close(self) -> None:
        with self._lock:
            self._end()


class ClientGroups:
    """The control groups of clients, one per pod, below their node's group. Data planes attach BPF programs to them."""

    def __init__(self, sandbox_of: Callable[[str], ProgramSandbox]) -> None:
        self._sandbox_of = sandbox_of
        self._lock = threading.Lock()
        self._makers: dict[NetworkPeer, SocketMaker] = {}

    def members(self, node: str) -> str:
        """Return the file to which a root process writes its PID to join the control group of a node."""
        return self._sandbox_of(node).members

    def of(self, host: NetworkPeer) -> SocketMaker:
        with self._lock:
            for gone in [each for each in self._makers if each.namespace.closed]:
                self._makers.pop(gone).close()
            if host not in self._makers:
                group = f"{OF_PODS}/{host.name}" if host.name != host.node else ""
                self._makers[host] = SocketMaker(host.namespace, self._sandbox_of(host.node), group)
            return self._makers[host]

    def close(self) -> None:
        with self._lock:
            while self._makers:
                self._makers.popitem()[1].close()
