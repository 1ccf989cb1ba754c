"""Manages the processes of one control plane, and their folder, ports and time limits."""

import contextlib
import os
import random
import shutil
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import trustme
import urllib3

from harness.binaries import find_entry
from harness.errors import DistrustError, InconclusiveError, UnavailableError
from harness.eventually import time_scale
from harness.model.private_folder import PrivateFolder
from harness.model.program_log import end_of
from harness.netns import process
from harness.netns.isolation import ProgramSandbox
from harness.netns.process import Process

_MEMORY = Path("/dev/shm")  # noqa: S108  a file system in memory; the folder in it is made by mkdtemp
_ROOM = 1 << 30  # the free bytes that are required: etcd alone reserves 128 MB
_PORTS = range(20000, 32000)  # below the ephemeral ports, so that the kernel assigns none of these to a client
_TRIES = 4  # the maximum number of starts, each on other ports
_EVERY = 0.02  # seconds between two readiness checks


@dataclass(frozen=True, slots=True)
class ComponentProgram:
    """A program of a component: its version, such as "v1.37.1", and its path or image."""

    version: str
    place: str


class Processes:
    def __init__(self) -> None:
        self._own = PrivateFolder("trafficdist-processes-", _roomy())
        self.folder = self._own.path
        self._running: list[Process] = []
        self._sandbox: ProgramSandbox | None = None

    def find(self, component: str, version: str = "") -> ComponentProgram:
        entry = find_entry(component, version)
        return ComponentProgram(entry.version.tag, str(entry.path))

    def start(self, name: str, arguments: Sequence[str | Path]) -> Process:
        """Start a program, given its path and arguments. Raises `UnavailableError` if the start fails."""
        if not os.access(arguments[0], os.X_OK):
            raise UnavailableError(f"{name}: {arguments[0]} is not executable")
        if self._sandbox is None:
            try:
                self._sandbox = ProgramSandbox("control-plane", of="the control plane", folder=self.folder)
            except OSError as error:
                raise UnavailableError(f"{name} cannot be started: {error.strerror}") from error
        log = self.folder / f"{name}.log"
        started = process.start(name, arguments, log=log, folder=self.folder, sandbox=self._sandbox)
        self._running.append(started)
        return started

    def start_on_ports(
        self,
        name: str,
        count: int,
        arguments: Callable[[Sequence[int]], Sequence[str | Path]],
        wait: Callable[[Process], None],
    ) -> Process:
        """Start a program on `count` free loopback ports. If another program takes one of them, try other ports."""
        for tries_left in reversed(range(_TRIES)):
            started = self.start(name, arguments(free_ports(count)))
            try:
                wait(started)
            except BaseException as error:  # on Ctrl-C, too, because no other code knows the process yet
                self.kill(started)
                taken = isinstance(error, Exception) and "address already in use" in started.said()
                if not (taken and tries_left):
                    raise
            else:
                return started
        raise AssertionError("unreachable: the last attempt raises an error")

    def kill(self, running: Process | None) -> None:
        if running is not None:
            running.stop(grace=0)
            self._running.remove(running)

    def logs(self) -> dict[str, str]:
        return {each.name: end_of(each) for each in sorted(self.folder.glob("*.log"))}

    def close(self) -> None:
        for each in reversed(self._running):
            each.stop(grace=0)
        self._running.clear()
        if self._sandbox:
            self._sandbox.close()
        self._own.close()


class SecurePort:
    """The HTTPS port of a Kubernetes component on loopback, with health and metrics paths that need no credentials."""

    def __init__(self, key: Path) -> None:
        ca = trustme.CA()
        key.write_bytes(ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes())
        context = ssl.create_default_context(cadata=ca.cert_pem.bytes().decode())
        self._http = urllib3.PoolManager(ssl_context=context, retries=False, timeout=10.0)
        self._key, self._port = key, 0

    def arguments(self, port: int) -> list[str]:
        """Return the component's arguments for a port. `read` uses this port from then on."""
        self._port = port
        return [
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self._key}",
            f"--tls-private-key-file={self._key}",
            "--authentication-skip-lookup",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
        ]

    def read(self, path: str) -> tuple[int, str]:
        """Return the status code and text of a path. Raises `InconclusiveError` if there is no answer."""
        try:
            answer = self._http.request("GET", f"https://127.0.0.1:{self._port}{path}")
        except urllib3.exceptions.HTTPError as error:
            raise InconclusiveError(str(error)) from error
        return answer.status, answer.data.decode()

    def close(self) -> None:
        self._http.clear()


def wait_until_ready(starting: Process, is_ready: Callable[[], bool], *, within: float) -> None:
    """Wait until a process is ready. Raises `DistrustError`, or `UnavailableError` for an unknown feature gate."""
    begin = time.monotonic()
    while True:
        with contextlib.suppress(InconclusiveError):
            if is_ready():
                return
        try:
            starting.check()
        except DistrustError:
            line = next((line for line in starting.said().splitlines() if "feature gate" in line), "")
            if line:
                raise UnavailableError(f"{starting.name} of this release does not start: {line.strip()}") from None
            raise
        if time.monotonic() - begin > within * time_scale():
            raise starting.broken(f"was not ready after {time.monotonic() - begin:.0f} s")
        time.sleep(_EVERY)


def free_ports(count: int) -> list[int]:
    found: list[int] = []
    for port in random.Random().sample(_PORTS, len(_PORTS)):  # noqa: S311  not a seed's: processes differ
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise UnavailableError(f"fewer than {count} loopback ports are free between {_PORTS.start} and {_PORTS.stop}")


def _roomy() -> Path:
    with contextlib.suppress(OSError):
        if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
            return _MEMORY
    return Path(tempfile.gettempdir())
