"""What the servers of agnhost say and print, by command: `netexec` and `serve-hostname`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from emulator.kubelet.agnhost import printed
from emulator.kubelet.agnhost.arguments import Command, Netexec, Pause, ServeHostname
from emulator.kubelet.agnhost.messages import HttpResponse, Request
from emulator.kubelet.agnhost.netexec import Dial, ServerState, respond, respond_udp
from emulator.kubelet.agnhost.serving import Answers
from emulator.kubelet.container_log import ContainerLog
from harness.netns.namespace import Namespace
from harness.probes.probe import SocketSource


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """What a command of agnhost has of its container: host name, environment, and its log."""

    hostname: str
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    log: ContainerLog = dataclasses.field(default_factory=ContainerLog)

    def print(self, text: str) -> None:
        """Log a line as klog does."""
        self.log.write(printed.logged(text), "stderr")


class NetexecAnswers:
    """Those of `netexec`. `me` may be replaced while it runs."""

    def __init__(self, command: Netexec, process: Process, read: Callable[[str], str]) -> None:
        """`read` returns a file of /proc as it is in its network namespace."""
        self.me = ServerState(
            process.hostname, command.http_port, command.udp_port, read=read, environment=process.environment
        )
        self.hostname = process.hostname
        self.ports: Sequence[tuple[str, int]] = [
            ("HTTP", command.http_port),
            *([] if command.udp_port == -1 else [("UDP", command.udp_port)]),
        ]
        self._print = process.print

    def to_request(self, request: Request, client: str) -> HttpResponse | Dial:
        """See `Answers`."""
        self._print(printed.of_request(request))
        return respond(request, self.me, client)

    def to_datagram(self, data: bytes, client: str) -> bytes | None:
        """See `Answers`."""
        if said := printed.of_datagram(data, client, self.me.udp_port):
            self._print(said)
        return respond_udp(data, self.me, client)

    def to_connection(self, _client: str) -> bytes:
        """See `Answers`; it has no such port."""
        return b""


class HostnameAnswers:
    """Those of `serve-hostname`."""

    def __init__(self, command: ServeHostname, process: Process) -> None:
        served = {"TCP": command.tcp, "UDP": command.udp, "HTTP": command.http}
        self.ports: Sequence[tuple[str, int]] = [
            (protocol, command.port) for protocol, wanted in served.items() if wanted
        ]
        self.hostname = process.hostname
        self._headers = (("Connection", "close"),) if command.close else ()
        self._print = process.print

    def to_request(self, _request: Request, client: str) -> HttpResponse | Dial:
        """See `Answers`."""
        self._print(f"HTTP request from {client}")
        return HttpResponse(200, self.hostname.encode(), self._headers)

    def to_datagram(self, _data: bytes, client: str) -> bytes | None:
        """See `Answers`."""
        self._print(f"UDP request from {client}")
        return self.hostname.encode()

    def to_connection(self, client: str) -> bytes:
        """See `Answers`."""
        self._print(f"TCP request from {client}")
        return self.hostname.encode()


def answers_of(command: Command, process: Process, source: SocketSource) -> Answers | None:
    """Return what a command says on its ports; None if it has none."""
    match command:
        case Netexec():
            return NetexecAnswers(command, process, lambda file: _read(source, file))
        case ServeHostname():
            return HostnameAnswers(command, process)
        case Pause():
            return None


def _read(source: SocketSource, file: str) -> str:
    """Return a file of /proc as it is in the network namespace of a server; "" if the server has none."""
    if not isinstance(source, Namespace):
        return ""
    with source.entered():
        return Path(file).read_text(encoding="ascii")
