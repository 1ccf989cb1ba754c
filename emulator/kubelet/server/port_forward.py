"""Forward ports of a pod: a client reaches the pod's loopback over a single connection to the kubelet.

kubectl uses SPDY, since 1.31 inside a WebSocket. Client libraries use the channels of a WebSocket, two for each port.
In every protocol, a forwarded connection has a data stream and an error stream.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from emulator.kubelet.server import spdy, streams
from emulator.kubelet.server.exec import background
from emulator.kubelet.server.spdy import SpdyConnection, SpdyStream
from emulator.kubelet.server.streams import TUNNEL, V4, Channels, Stream, WebSocketWire
from harness.netns.namespace import Namespace

PROTOCOL = "portforward.k8s.io"
_CHUNK = 1 << 16
_DIAL_SECONDS = 30.0
_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


async def serve(request: web.BaseRequest, netns: Namespace) -> web.StreamResponse:
    """Upgrade the connection, and forward until it ends. Raises `ConnectionError`, or `ValueError` for the query."""
    if request.headers.get("Upgrade", "").lower() != "websocket":
        wire = await spdy.upgrade(request, PROTOCOL)
        if isinstance(wire, spdy.UpgradedWire):
            await _by_spdy(SpdyConnection(wire), netns)
            return wire.response
        return wire
    ports = _ports(request) if TUNNEL not in request.headers.get("Sec-WebSocket-Protocol", "") else []
    websocket = await streams.upgrade(request, (TUNNEL, V4))
    if websocket is None:
        return web.Response(status=403, text=f"unable to upgrade: the server accepts {TUNNEL} and {V4}\n")
    if websocket.ws_protocol == TUNNEL:
        await _by_spdy(SpdyConnection(WebSocketWire(websocket)), netns)
    else:
        await _by_channels(websocket, ports, netns)
    await websocket.close()
    return websocket


async def _by_spdy(connection: SpdyConnection, netns: Namespace) -> None:
    """Forward a connection for each pair of streams that a client opens."""
    pairs: dict[str, dict[str, SpdyStream]] = {}
    tasks: set[asyncio.Task[None]] = set()
    async with background(connection.serve()):
        try:
            while (stream := await connection.accept()) is not None:
                kind = stream.headers.get("streamtype", "")
                unnamed = str(stream.number - 2 * (kind == "data"))  # clients from 2016 open the error stream first
                pair = pairs.setdefault(stream.headers.get("requestid", unnamed), {})
                pair[kind] = stream
                if "data" in pair and "error" in pair:
                    task = asyncio.create_task(_forward_pair(connection, pair["data"], pair["error"], netns))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _forward_pair(connection: SpdyConnection, data: SpdyStream, error: SpdyStream, netns: Namespace) -> None:
    with contextlib.suppress(ConnectionError):
        await forward(netns, int(data.headers.get("port", "0")), data, error)
        await error.end()
        if not data.ended:
            await data.reset()
        connection.forget(data)
        connection.forget(error)


async def _by_channels(websocket: web.WebSocketResponse, ports: Sequence[int], netns: Namespace) -> None:
    """Forward one connection to each port, until all connections have ended."""
    channels = Channels(websocket, 2 * len(ports))
    pairs = list(zip(ports, channels.every[::2], channels.every[1::2], strict=True))
    for port, data, error in pairs:
        for channel in (data, error):
            await channel.write(port.to_bytes(2, "little"))
    async with background(channels.serve()) as gone, background(_forward_all(pairs, netns)) as every:
        await asyncio.wait([every, gone], return_when=asyncio.FIRST_COMPLETED)


async def _forward_all(pairs: Sequence[tuple[int, Stream, Stream]], netns: Namespace) -> None:
    await asyncio.gather(*(forward(netns, port, data, error) for port, data, error in pairs))


async def forward(netns: Namespace, port: int, data: Stream, error: Stream) -> None:
    """Forward one connection until it ends. Raises `ConnectionError` if the client has disconnected."""
    try:
        reader, writer = await _connect(netns, port)
    except (OSError, TimeoutError) as why:
        said = os.strerror(why.errno).lower() if isinstance(why, OSError) and why.errno else "i/o timeout"
        await error.write(f"error forwarding port {port}: dial tcp localhost:{port}: connect: {said}".encode())
        return
    there = asyncio.create_task(_to_pod(data, writer))
    here = asyncio.create_task(_from_pod(reader, data))
    both: tuple[asyncio.Task[Any], ...] = (here, there)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not here.done() and not there.result():
            await here
    finally:
        writer.transport.abort()
        data.ignore()
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _to_pod(data: Stream, writer: asyncio.StreamWriter) -> bool:
    """Copy bytes from the client to the pod. Return whether the client reset the stream instead of ending it."""
    with contextlib.suppress(ConnectionError):  # the pod has stopped reading, but may still write
        while chunk := await data.read():
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    return isinstance(data, SpdyStream) and data.ended


async def _from_pod(reader: asyncio.StreamReader, data: Stream) -> None:
    """Copy bytes from the pod to the client, until the pod ends the connection."""
    while True:
        try:
            chunk = await reader.read(_CHUNK)
        except OSError:  # the pod reset the connection
            chunk = b""
        if not chunk:
            await data.end()
            return
        await data.write(chunk)


async def _connect(netns: Namespace, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port on the pod's loopback. Raises `OSError`, `TimeoutError`."""
    failed: OSError | None = None
    for family, address in _LOOPBACK:
        made = netns.socket(family, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            async with asyncio.timeout(_DIAL_SECONDS):
                await asyncio.get_running_loop().sock_connect(made, (address, port))
            return await asyncio.open_connection(sock=made)
        except OSError as error:
            made.close()
            failed = failed or error
        except BaseException:
            made.close()
            raise
    assert failed is not None
    raise failed


def _ports(request: web.BaseRequest) -> list[int]:
    """Return the ports in the query, `port=80,81` or `port=80&port=81`. Raises `ValueError`."""
    every = [each for text in request.query.getall("port", []) for each in text.split(",")]
    if not every:
        raise ValueError('query parameter "port" is required')
    for each in every:
        if not each.isdecimal() or not 0 < int(each) <= 65535:
            raise ValueError(f'unable to parse "{each}" as a port')
    return [int(each) for each in every]
