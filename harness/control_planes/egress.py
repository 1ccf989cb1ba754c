"""Connect a real kube-apiserver to pods through an HTTP CONNECT proxy on a Unix socket.

kube-apiserver runs outside the embedded cluster's network, where it cannot reach pods. An EgressSelectorConfiguration
sends its requests for pods through this proxy, which creates its sockets inside that network. Only the API server has
access to the proxy, because the Unix socket is in the processes' folder, which belongs to this user.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path

from harness.control_planes.control_plane import OpenSocket
from harness.control_planes.relay import Relay, Streams

_DIAL_SECONDS = 30.0  # as in kube-apiserver without a proxy
_HEAD_SECONDS = 10.0  # seconds for a client to name its target
_NO_WAY = "no way into the network of pods was given"


class Egress(Relay):
    """Listens in a folder from `start` to `close`. It refuses all requests until `reach_pods` is called."""

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
        """Connect to pods through sockets from `open_socket`, which runs in this proxy's thread."""
        self._open_socket = open_socket

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Streams:
        try:
            streams = await self._dial(await _target(reader))
        except (OSError, ValueError) as error:
            await _answer(writer, f"503 {_said(error)}")
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


async def _target(reader: asyncio.StreamReader) -> str:
    """Return the address and port that a client requests. Raises `ValueError`."""
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except (EOFError, asyncio.LimitOverrunError) as error:
        raise ValueError("this is no HTTP") from error
    method, target, *_ = (*head.decode("latin-1").split(" "), "")
    if method != "CONNECT":
        raise ValueError("only CONNECT is understood")
    return target


async def _answer(writer: asyncio.StreamWriter, status: str) -> None:
    writer.write(f"HTTP/1.1 {status}\r\n\r\n".encode())
    await writer.drain()


def _said(error: Exception) -> str:
    """Return the error text as Go would write it, because kube-apiserver passes the text on to its client."""
    if isinstance(error, TimeoutError):
        return "i/o timeout"
    return os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)
