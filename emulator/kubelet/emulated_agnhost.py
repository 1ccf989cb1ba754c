"""An emulation of the part of `agnhost netexec` that a cluster needs, for machines without Go.

The emulation listens in the pod's netns without a separate process, so a pod becomes ready within milliseconds. Error
messages are those of Go's network libraries, because clients parse them. `/dial` closes connections with RST, to leave
no ports in TIME_WAIT. `tests/emulator/kubelet/test_emulated_agnhost.py` compares the emulation with the real program.
"""

import asyncio
import contextlib
import ipaddress
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from emulator.kubelet.images import Netexec
from emulator.kubelet.sandbox import KILLED
from harness.errors import HarnessError
from harness.event_loop import EventLoop, close_server
from harness.netns.addresses import Family
from harness.netns.namespace import Namespace
from harness.probes.probe import RESET_ON_CLOSE
from harness.probes.server import bound

TRY_SECONDS = 5.0
"""The time limit of one attempt of `/dial`, as in agnhost."""

_LATE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_READABLE = {
    "cat /proc/net/netstat": "/proc/thread-self/net/netstat",
    "cat /proc/sys/net/ipv4/ip_local_port_range": "/proc/sys/net/ipv4/ip_local_port_range",
}
_CONNECT = re.compile(r"/agnhost connect \[?(?P<host>\S+?)\]?:(?P<port>\d{1,5}) --timeout=(?P<seconds>[1-9])s")
_CHUNK = 1 << 16

Answer = tuple[int, str]
"""The HTTP status code and the body of a response."""


class EmulatedAgnhost:
    """An emulated container. After `start`, the loop's thread calls `ended` with the exit code, except after `drop`."""

    def __init__(self, command: Netexec, hostname: str, netns: Namespace, loop: EventLoop) -> None:
        self._command, self._hostname, self._netns, self._loop = command, hostname, netns, loop
        self._terminated, self._killed = asyncio.Event(), asyncio.Event()
        self._dropped = False

    def start(self, families: Sequence[Family], ended: Callable[[int], None]) -> None:
        """Open the ports for these IP families, and answer requests. Raises `OSError` if a port is in use."""
        command, opened = self._command, list[socket.socket]()
        ports = {"TCP": command.http_port, "UDP": command.udp_port} if command.serves else {}
        try:
            for protocol, port in ports.items():
                opened += [bound(self._netns, protocol, family, port) for family in families if port != -1]
        except BaseException:
            for each in opened:
                each.close()
            raise
        if self._loop.spawn(self._serve(opened, ended)).cancelled():  # the loop has ended
            for each in opened:
                each.close()

    def terminate(self) -> None:
        """Stop as on SIGTERM, after the delay that the command line specifies."""
        self._loop.after(0, self._terminated.set)

    def kill(self) -> None:
        self._loop.after(0, self._killed.set)
        self.terminate()

    def drop(self) -> None:
        """Stop immediately, but do not cancel the task: cancelling it before its first step would leak its sockets."""
        self._dropped = True
        self.kill()

    async def _serve(self, opened: Sequence[socket.socket], ended: Callable[[int], None]) -> None:
        loop = asyncio.get_running_loop()
        connections: set[asyncio.Task[None]] = set()
        async with contextlib.AsyncExitStack() as held:
            for sock in opened:
                held.callback(sock.close)
            held.push_async_callback(_end, connections)
            for sock in opened:
                if sock.type is socket.SOCK_STREAM:
                    made = await asyncio.start_server(partial(self._converse, connections), sock=sock)
                    held.push_async_callback(close_server, made)
                else:
                    transport, _ = await loop.create_datagram_endpoint(lambda: _UdpServer(self._responses), sock=sock)
                    held.callback(transport.abort)
            await self._terminated.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._command.delay_shutdown):
                    await self._killed.wait()
        if not self._dropped:
            ended(KILLED if self._killed.is_set() else 0)

    def _responses(self, peer: tuple[Any, ...]) -> Mapping[str, str]:
        return {"hostname": self._hostname, "clientip": _joined(*peer[:2])}

    async def _converse(
        self, connections: set[asyncio.Task[None]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer HTTP requests without bodies. aiohttp would take four times as long for each connection."""
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        stays = True
        try:
            while stays:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *headers = head.lower().split("\r\n")
                stays = first.endswith("http/1.1") and "connection: close" not in headers
                target = head.split(" ", 2)[1] if first.count(" ") == 2 else ""
                code, text = await self._answer(target, writer.get_extra_info("peername"))
                more = "" if stays else "Connection: close\r\n"
                length = len(text.encode())
                head = f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\nContent-Length: {length}\r\n{more}\r\n"
                writer.write((head + text).encode())
            writer.close()
            await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # the client has closed the connection, or does not speak HTTP
        finally:
            writer.transport.abort()
            connections.discard(task)

    async def _answer(self, target: str, peer: tuple[Any, ...]) -> Answer:
        path, _, text = target.removeprefix("/").partition("?")
        query = dict(parse_qsl(text))
        match path:
            case "hostname" | "clientip":
                return 200, self._responses(peer)[path]
            case "healthz":
                return 200, ""
            case "dial":
                return await self._dial(query)
            case "shell":
                return await self._shell(query.get("cmd", ""))
        return 404, f"the emulated agnhost has no /{path}\n"

    async def _dial(self, query: Mapping[str, str]) -> Answer:
        """Handle `/dial` like agnhost: reply 200 even if all attempts fail, but omit `responses` if the last fails."""
        try:
            host, port, tries = str(ipaddress.ip_address(query["host"])), int(query["port"]), int(query.get("tries", 1))
            attempt = {"http": self._get, "udp": self._send}[query.get("protocol", "http")]
            request = query["request"]
        except (KeyError, ValueError) as error:
            return 400, f"the emulated agnhost does not support this dial request: {error!r}\n"
        responses, errors, last = [], [], ""
        for _ in range(tries):
            last = ""
            try:
                last = await attempt(host, port, request)
                responses.append(last)
            except _DialError as error:
                errors.append(str(error))
        return 200, _json(({"errors": errors} if errors else {}) | ({"responses": responses} if last else {}))

    async def _shell(self, command: str) -> Answer:
        if connect := _CONNECT.fullmatch(command):
            host, port, seconds = connect["host"], int(connect["port"]), float(connect["seconds"])
            try:
                async with self._connected(socket.SOCK_STREAM, host, port, seconds):
                    return 200, "{}"
            except _DialError as error:
                why = "REFUSED" if "refused" in str(error) else "TIMEOUT" if _LATE in str(error) else f"OTHER: {error}"
                return 200, _json({"error": "exit status 1", "output": f"{why}\n"})
        if command not in _READABLE:
            return 501, f"the emulated agnhost cannot run {command!r}\n"
        return 200, _json({"output": self._read(_READABLE[command])})

    def _read(self, path: str) -> str:
        with self._netns.entered():
            return Path(path).read_text(encoding="ascii")

    async def _get(self, host: str, port: int, request: str) -> str:
        target = _joined(host, port)
        question = f"GET /{request} HTTP/1.0\r\nHost: {target}\r\n\r\n".encode()
        try:
            async with self._connected(socket.SOCK_STREAM, host, port) as sock:
                data = await _exchanged(sock, question, most=1 << 20)
            head, found, body = data.partition(b"\r\n\r\n")
            if not found or not head.startswith(b"HTTP/"):
                raise _DialError(f"malformed HTTP response {data[:60]!r}" if data else "EOF")
        except _DialError as error:
            raise _DialError(f'Get "http://{target}/{request}": {error}') from error
        return body.decode(errors="replace")

    async def _send(self, host: str, port: int, request: str) -> str:
        async with self._connected(socket.SOCK_DGRAM, host, port) as sock:
            return (await _exchanged(sock, request.encode(), most=1)).decode(errors="replace")

    @contextlib.asynccontextmanager
    async def _connected(
        self, kind: socket.SocketKind, host: str, port: int, seconds: float = TRY_SECONDS
    ) -> AsyncIterator[socket.socket]:
        """Connect from the netns. The time limit covers the `with` block, whose errors also become `_DialError`."""
        try:
            sock = self._netns.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind | socket.SOCK_NONBLOCK)
            with sock:
                if kind is socket.SOCK_STREAM:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                async with asyncio.timeout(seconds):
                    with _as("connect"):
                        await asyncio.get_running_loop().sock_connect(sock, (host, port))
                    yield sock
        except TimeoutError:
            raise _DialError(_LATE) from None
        except (HarnessError, OSError) as error:  # no descriptor is left, or the netns has been removed
            raise _DialError(str(error)) from error


class _DialError(Exception):
    """An attempt of `/dial` has failed. The message is that of Go's network libraries."""


class _UdpServer(asyncio.DatagramProtocol):
    def __init__(self, responses: Callable[[tuple[Any, ...]], Mapping[str, str]]) -> None:
        self._responses = responses

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, peer: tuple[Any, ...]) -> None:
        if answer := self._responses(peer).get(data.decode(errors="replace").strip().lower()):
            self._transport.sendto(answer.encode(), peer)


async def _end(connections: set[asyncio.Task[None]]) -> None:
    """Close all connections. First wait three loop iterations, in which asyncio sets up accepted connections."""
    for _ in range(3):
        await asyncio.sleep(0)
    for each in connections:
        each.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


async def _exchanged(sock: socket.socket, question: bytes, *, most: int) -> bytes:
    loop, answer = asyncio.get_running_loop(), b""
    with _as("write"):
        await loop.sock_sendall(sock, question)
    with _as("read"):
        for _ in range(most):
            if not (chunk := await loop.sock_recv(sock, _CHUNK)):
                break
            answer += chunk
    return answer


@contextlib.contextmanager
def _as(call: str) -> Iterator[None]:
    """Convert an `OSError` in the block to `_DialError` with Go's message for `call`. Timeouts are not converted."""
    try:
        yield
    except OSError as error:
        if isinstance(error, TimeoutError) and not error.errno:
            raise
        raise _DialError(f"{call}: {os.strerror(error.errno or 0).lower()}") from error


def _json(value: object) -> str:
    """Return JSON as Go's encoding/json writes it."""
    return json.dumps(value, separators=(",", ":"))


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
