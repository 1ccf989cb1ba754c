"""Connections to ports of a pod over one WebSocket: the subresource `portforward`, where `proxy` is forbidden.

Of Kubernetes' protocols it is the one of WebSocket channels, which client libraries speak (v4.channel.k8s.io): two
channels for each port, one for data and one for errors, and a channel's number before each message. kubectl asks by
SPDY, which is not served. A connection goes to the pod's address, where kubelets go to its loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import WSMsgType, web

from reference.apiserver import status
from reference.apiserver.pod_access import pod_location
from reference.apiserver.pod_access.pod_location import NO_WAY, Location, OpenSocket, Wanted
from reference.apiserver.registry import Registry

PROTOCOL = "v4.channel.k8s.io"
_CHUNK = 1 << 16


@dataclass(slots=True)
class _Forwarded:
    """One port: where it leads to, the number of its data channel, and its connection once there is one."""

    location: Location
    channel: int
    writer: asyncio.StreamWriter | None = None


class PortForward:
    """Forwards ports of pods; belongs to one event loop."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def forward(
        self, request: web.BaseRequest, asked: Wanted, open_socket: OpenSocket | None
    ) -> web.StreamResponse:
        """Serve one WebSocket to its end. Raises `ApiError`: 400, 404, 405, 503."""
        if request.method not in {"GET", "POST"}:
            raise status.method_not_allowed(request.method)
        websocket = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=0)
        protocol = websocket.can_prepare(request)
        if not protocol or not protocol.protocol:
            said = f"ports are forwarded over WebSockets only, by {PROTOCOL}"
            raise status.bad_request(f"{said}; a pod's HTTP server is reached by the subresource proxy, too")
        ports = _ports(request.query.getall("ports", []))
        address = pod_location.locate(self._registry, asked).address
        if open_socket is None:
            raise pod_location.unreached(NO_WAY)
        await websocket.prepare(request)
        every = [_Forwarded(Location("tcp", address, port), 2 * index) for index, port in enumerate(ports)]
        await _serve(websocket, every, open_socket)
        return websocket


async def _serve(websocket: web.WebSocketResponse, every: Sequence[_Forwarded], open_socket: OpenSocket) -> None:
    for each in every:
        for channel in (each.channel, each.channel + 1):
            await websocket.send_bytes(bytes([channel]) + each.location.port.to_bytes(2, "little"))
    connected = [asyncio.Event() for _ in every]
    from_pods = [
        asyncio.create_task(_from_pod(websocket, each, open_socket, event))
        for each, event in zip(every, connected, strict=True)
    ]
    from_client = asyncio.create_task(_from_client(websocket, every, connected))
    all_ended = asyncio.gather(*from_pods)
    try:
        await asyncio.wait((all_ended, from_client), return_when=asyncio.FIRST_COMPLETED)
        await websocket.close()
    finally:
        from_client.cancel()
        all_ended.cancel()
        await asyncio.gather(all_ended, from_client, return_exceptions=True)


async def _from_pod(
    websocket: web.WebSocketResponse, forwarded: _Forwarded, open_socket: OpenSocket, connected: asyncio.Event
) -> None:
    """Connect, and bring what the pod says to the client, until the pod ends the connection."""
    try:
        reader, forwarded.writer = await pod_location.connect(open_socket, forwarded.location)
        connected.set()
        while chunk := await reader.read(_CHUNK):
            await websocket.send_bytes(bytes([forwarded.channel]) + chunk)
    except (OSError, TimeoutError) as error:
        connected.set()
        text = pod_location.failed(forwarded.location, error)
        with contextlib.suppress(ConnectionError):  # the client has gone
            await websocket.send_bytes(bytes([forwarded.channel + 1]) + text.encode())
    finally:
        if forwarded.writer is not None:
            forwarded.writer.transport.abort()


async def _from_client(
    websocket: web.WebSocketResponse, every: Sequence[_Forwarded], connected: Sequence[asyncio.Event]
) -> None:
    """Bring what the client says to the pods, until the client ends the WebSocket."""
    async for message in websocket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        index, is_error = divmod(message.data[0], 2)
        if is_error or index >= len(every):
            continue
        await connected[index].wait()
        if (writer := every[index].writer) is not None and not writer.transport.is_closing():
            writer.write(message.data[1:])
            with contextlib.suppress(OSError):  # the pod has gone, and its channel ends
                await writer.drain()


def _ports(texts: Sequence[str]) -> list[int]:
    """The ports asked for, `ports=80,81` as well as `ports=80&ports=81`. Raises `ApiError` (400)."""
    every = [each for text in texts for each in text.split(",")]
    if not every:
        raise status.bad_request('query parameter "ports" is required')
    for each in every:
        if not each.isdecimal() or not 0 < int(each) <= 65535:
            raise status.bad_request(f'unable to parse "{each}" as a port')
    return [int(each) for each in every]
