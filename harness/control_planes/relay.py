"""Relays connections from sockets in other network namespaces to a loopback port. A socket remains in the netns in
which it was created, so nodes of an embedded cluster can reach an API server process in another netns without a route.
A patient relay keeps connections waiting while the server is unavailable, because Kubernetes components double their
delay after each refused connection, up to 30 seconds.
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from harness.control_planes.control_plane import OpenSocket
from harness.event_loop import EventLoop, close_server

_CHUNK = 1 << 16
_EVERY = 0.02  # seconds between two checks for the server's return
_DIAL_SECONDS = 30.0  # as in kube-apiserver without a proxy
_HEAD_SECONDS = 10.0  # seconds for a client to name its target
_NO_WAY = "there is no access to the network of pods"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Relay:
    """Relays connections in a separate thread. If the server closes a connection, the relay disconnects the client."""

    def __init__(self, port: Callable[[], int], *, patient: bool = False) -> None:
        """`port` returns the server's port (0: stopped). While it is 0, clients wait if `patient`, else they fail."""
        self._port = port
        self._patient = patient
        self._loop: EventLoop | None = None  # set by `listen`
        self._servers: list[asyncio.Server] = []

    def listen(self, listening: socket.socket) -> None:
        if self._loop is None:
            self._loop = EventLoop("relay")
            self._loop.start()
        listening.setblocking(False)
        self._loop.run(self._listen(listening))

    def threads(self) -> tuple[threading.Thread, ...]:
        return () if self._loop is None else (self._loop.thread,)

    def close(self) -> None:
        if self._loop is None:
            return
        loop, self._loop = self._loop, None
        if loop.thread.is_alive():
            loop.run(self._stop_listening())
        loop.close()

    async def _listen(self, listening: socket.socket) -> None:
        # asyncio calls listen() again, by default with a queue of 100. A Unix socket with a full queue refuses
        # connections.
        self._servers.append(await asyncio.start_server(self._serve, sock=listening, backlog=4096))

    async def _stop_listening(self) -> None:
        for server in self._servers:
            await close_server(server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _pass_on((reader, writer), await self._connect(reader, writer))
        except (OSError, asyncio.CancelledError):
            _reset(writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Streams:  # noqa: ARG002
        """Open the connection to the server. Subclasses read the target from the client's stream. Raises `OSError`."""
        while True:
            try:
                if port := self._port():
                    return await asyncio.open_connection("127.0.0.1", port)
                raise ConnectionRefusedError
            except ConnectionRefusedError:
                if not self._patient:
                    raise
                await asyncio.sleep(_EVERY)


async def _pass_on(here: Streams, there: Streams) -> None:
    try:
        await asyncio.gather(_copy(here[0], there[1]), _copy(there[0], here[1]))
    finally:
        there[1].transport.abort()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):  # the socket is closed already
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
    writer.close()


class EgressProxy(Relay):
    """Connects a real kube-apiserver to pods: an HTTP CONNECT proxy on a Unix socket in a folder that only this user
    can enter. kube-apiserver runs outside the embedded cluster's network. An EgressSelectorConfiguration makes it send
    requests for pods through this proxy, which creates sockets inside that network.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(lambda: 0)
        self._path = folder / "egress"
        self._open_socket: OpenSocket | None = None
        self.configuration = folder / "egress.yaml"
        """The file for kube-apiserver's --egress-selector-config-file."""

    def start(self) -> None:
        transport = {"uds": {"udsName": str(self._path)}}
        connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
        configuration = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }
        self.configuration.write_text(json.dumps(configuration))
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self._path))
        listening.listen(512)
        self.listen(listening)

    def reach_pods(self, open_socket: OpenSocket) -> None:
        self._open_socket = open_socket

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Streams:
        try:
            streams = await self._dial(await _target_of(reader))
        except (OSError, ValueError) as error:
            await _answer(writer, f"503 {_go_error_text(error)}")
            raise ConnectionAbortedError from error
        await _answer(writer, "200 Connection established")
        return streams

    async def _dial(self, target: str) -> Streams:
        address, _, port = target.rpartition(":")
        address = address.strip("[]")
        if self._open_socket is None:
            raise ValueError(_NO_WAY)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = self._open_socket(family, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            async with asyncio.timeout(_DIAL_SECONDS):
                await asyncio.get_running_loop().sock_connect(made, (address, int(port)))
            return await asyncio.open_connection(sock=made)
        except BaseException:
            made.close()
            raise


async def _target_of(reader: asyncio.StreamReader) -> str:
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except (EOFError, asyncio.LimitOverrunError) as error:
        raise ValueError("this is not an HTTP request") from error
    method, target, *_ = (*head.decode("latin-1").split(" "), "")
    if method != "CONNECT":
        raise ValueError("only CONNECT is supported")
    return target


async def _answer(writer: asyncio.StreamWriter, status: str) -> None:
    writer.write(f"HTTP/1.1 {status}\r\n\r\n".encode())
    await writer.drain()


def _go_error_text(error: Exception) -> str:
    """Return the error text in Go's wording, because kube-apiserver passes the text on to its client."""
    if isinstance(error, TimeoutError):
        return "i/o timeout"
    return os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)
