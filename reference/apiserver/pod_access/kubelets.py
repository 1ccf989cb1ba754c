"""The `log` (HTTP) and `exec` (WebSocket) subresources of pods, forwarded to the kubelet of the pod's node."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web
from yarl import URL

from reference.apiserver import status
from reference.apiserver.kinds.shapes import is_time
from reference.apiserver.pod_access.pod_location import (
    DIAL_SECONDS,
    NO_WAY,
    Forwarder,
    Location,
    OpenSocket,
    PodRequest,
    reason_of,
    unreached,
)
from reference.apiserver.registry import Registry
from reference.client import ApiError, Object

_PORT = 10250
_CHUNK = 1 << 16
_GOODBYE = 1.0  # seconds that a client has to end the connection after the kubelet has closed it
_HEAD_BYTES = 1 << 16  # the maximum size of the head of a kubelet's response
_TRUE = frozenset({"true", "1"})
_REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}


class KubeletForwarder(Forwarder):
    def __init__(self, registry: Registry, open_socket: OpenSocket | None, tls: ssl.SSLContext | None) -> None:
        super().__init__(registry, open_socket)
        self._tls = tls
        self._running: set[asyncio.Task[Any]] = set()

    async def forward(self, request: web.BaseRequest, asked: PodRequest) -> web.StreamResponse:
        """Return the complete response of the kubelet. Raises `ApiError`: 400, 404, 405, 422, 500, 503."""
        methods = {"GET"} if asked.subresource == "log" else {"GET", "POST"}
        if request.method not in methods:
            raise status.method_not_allowed(request.method)
        if (located := self._locate(request, asked)) is None:  # the log of a pod without a node
            return web.Response(status=204)
        if self.open_socket is None or self._tls is None:
            raise unreached(NO_WAY)
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            return await (self._log if asked.subresource == "log" else self._upgrade)(request, *located)
        finally:
            self._running.discard(task)

    async def close(self) -> None:
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await super().close()

    def _locate(self, request: web.BaseRequest, asked: PodRequest) -> tuple[Location, str] | None:
        """Return the kubelet's address and the URL path, or None for logs if the pod has no node. Raises `ApiError`."""
        pod = self._registry.get("pods", asked.namespace, asked.identifier).object
        place = f"{asked.namespace}/{asked.identifier}"
        name = _container(request, pod)
        if asked.subresource == "log":
            path, query = f"/containerLogs/{place}/{name}", _log_query(request.query, asked)
        else:
            path, query = f"/exec/{place}/{name}", _exec_query(request)
        if not (node := pod["spec"].get("nodeName")):
            if asked.subresource == "log":
                return None
            raise status.bad_request(f"pod {asked.identifier} does not have a host assigned")
        target = f"{path}?{urlencode(query)}" if query else path
        return _listens(self._registry.get("nodes", "", node).object), target

    async def _log(self, request: web.BaseRequest, kubelet: Location, target: str) -> web.StreamResponse:
        assert self._tls is not None
        url = URL(f"https://{kubelet.host}{target}", encoded=True)
        try:
            async with await self._connected(tls=self._tls).get(url) as answer:
                if answer.status >= 300:
                    reason = _REASONS.get(answer.status, "InternalError")
                    raise status.failure(answer.status, reason, (await answer.text()).strip())
                response = web.StreamResponse(headers={"Content-Type": "text/plain"})
                await response.prepare(request)
                try:
                    async for piece in answer.content.iter_any():
                        await response.write(piece)
                except aiohttp.ClientError as error:  # only an aborted connection shows that the answer is incomplete
                    raise ConnectionResetError("the kubelet closed the connection too early") from error
                await response.write_eof()
                return response
        except (aiohttp.ClientConnectorError, TimeoutError) as error:
            raise _internal_error(f'Get "{url}": dial tcp {kubelet.host}: {_go_error_text(error)}') from error

    async def _upgrade(self, request: web.BaseRequest, kubelet: Location, target: str) -> web.StreamResponse:
        if "upgrade" not in request.headers.get("Connection", "").lower():
            raise status.bad_request("Upgrade request required")
        try:
            reader, writer = await self._dial(kubelet)
        except (OSError, TimeoutError) as error:
            raise _internal_error(f"error dialing backend: dial tcp {kubelet.host}: {_go_error_text(error)}") from error
        try:
            writer.write(_head(request, kubelet.host, target))
            code, headers = _parsed(await reader.readuntil(b"\r\n\r\n"))
            if code != 101:
                text = (await reader.read(int(headers.get("content-length", "0")))).decode(errors="replace")
                return web.Response(status=code, text=text, headers={"Connection": "close"})
            return await _carry(request, headers, reader, writer)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError) as error:
            raise _internal_error(f"error dialing backend: {error}") from error
        finally:
            writer.transport.abort()

    async def _dial(self, kubelet: Location) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        made = self._socket((socket.AF_INET6 if ":" in kubelet.address else socket.AF_INET, socket.SOCK_STREAM))
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                await asyncio.get_running_loop().sock_connect(made, (kubelet.address, kubelet.port))
                return await asyncio.open_connection(
                    sock=made, ssl=self._tls, server_hostname=kubelet.address, limit=_HEAD_BYTES
                )
        except BaseException:
            made.close()
            raise


async def _carry(
    request: web.BaseRequest, headers: Mapping[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> web.StreamResponse:
    """Switch protocols as the kubelet did, and copy bytes until one side closes the connection."""
    client, response = await _switched(request, headers)
    there, here = asyncio.create_task(_to_kubelet(client, writer)), asyncio.create_task(_to_client(reader, response))
    try:
        await asyncio.wait([there, here], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (there, here):
            task.cancel()
        await asyncio.gather(there, here, return_exceptions=True)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GOODBYE):  # closing it earlier would lose data that the client has not read
            while await client.read(_CHUNK):
                pass
    return response


async def _to_kubelet(client: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await client.read(_CHUNK):
        if not writer.is_closing():  # after the kubelet has closed, discard the client's data, but let the client read
            writer.write(data)
            with contextlib.suppress(OSError):
                await writer.drain()


async def _to_client(reader: asyncio.StreamReader, response: web.StreamResponse) -> None:
    while data := await reader.read(_CHUNK):
        await response.write(data)


async def _switched(
    request: web.BaseRequest, headers: Mapping[str, str]
) -> tuple[asyncio.StreamReader, web.StreamResponse]:
    """Switch protocols. Return a reader for the client's data, and the response. Raises `ConnectionError`."""
    if request.transport is None:
        raise ConnectionResetError("the client has disconnected")
    client = asyncio.StreamReader()
    client.set_transport(request.transport)
    request.protocol.set_parser(_Feeder(client))  # type: ignore[arg-type]  # it calls these two methods only
    response = web.StreamResponse(status=101, headers=dict(headers))
    response.force_close()
    await response.prepare(request)
    return client, response


class _Feeder:
    """An HTTP parser that only feeds data to a reader. The reader pauses the transport if too much data is unread."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._reader.feed_eof()


def _head(request: web.BaseRequest, host: str, target: str) -> bytes:
    """Return the head of the request for a kubelet: the client's request without the client's credentials."""
    names = [name for name in request.headers if name == "Upgrade" or name.lower().startswith("sec-websocket-")]
    fields = [("Host", host), ("Connection", "Upgrade"), ("Content-Length", "0")]
    fields += [(name, value) for name in dict.fromkeys(names) for value in request.headers.getall(name)]
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"{request.method} {target} HTTP/1.1\r\n{lines}\r\n".encode()


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    fields = (line.partition(":") for line in lines)
    return int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in fields}


def _container(request: web.BaseRequest, pod: Object) -> str:
    names = [str(each["name"]) for each in pod["spec"]["containers"]]
    others = [str(each["name"]) for each in pod["spec"].get("initContainers") or ()]
    name, of = request.query.get("container", ""), pod["metadata"]["name"]
    if name and name not in names + others:
        raise status.bad_request(f"container {name} is not valid for pod {of}")
    if not name and len(names) > 1:
        known = " ".join(others + names)
        raise status.bad_request(f"a container name must be specified for pod {of}, choose one of: [{known}]")
    return name or names[0]


def _exec_query(request: web.BaseRequest) -> list[tuple[str, str]]:
    """Return the query parameters of an exec request as the kubelet names them."""
    query = request.query
    named = {
        "input": query.get("stdin", ""),
        "output": query.get("stdout", ""),
        "error": query.get("stderr", ""),
        "tty": query.get("tty", ""),
    }
    found = [(key, "1") for key, value in named.items() if value.lower() in _TRUE]
    return found + [("command", each) for each in query.getall("command", [])]


def _log_query(query: Mapping[str, str], asked: PodRequest) -> list[tuple[str, str]]:
    truths = {
        "follow": query.get("follow", ""),
        "previous": query.get("previous", ""),
        "timestamps": query.get("timestamps", ""),
    }
    numbers = {
        "tailLines": query.get("tailLines", ""),
        "sinceSeconds": query.get("sinceSeconds", ""),
        "limitBytes": query.get("limitBytes", ""),
    }
    since = query.get("sinceTime", "")
    wrong = [each for name, text in numbers.items() if text and (each := _too_small(name, text))]
    if since and numbers["sinceSeconds"]:
        wrong.append("sinceSeconds: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified")
    if wrong:
        shown = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
        raise status.failure(422, "Invalid", f'PodLogOptions "{asked.identifier}" is invalid: {shown}')
    if since and not is_time(since):
        raise status.bad_request(f'parsing time "{since}" as "2006-01-02T15:04:05Z07:00"')
    found = [(name, "true") for name, value in truths.items() if value.lower() in _TRUE]
    return found + [(name, text) for name, text in {**numbers, "sinceTime": since}.items() if text]


def _too_small(name: str, text: str) -> str:
    """Return the error message for an invalid number, or "" if the number is valid. Raises `ApiError` (400)."""
    try:
        number = int(text)
    except ValueError as error:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error
    least, said = (0, "greater than or equal to 0") if name == "tailLines" else (1, "greater than 0")
    return f"{name}: Invalid value: {number}: must be {said}" if number < least else ""


def _listens(node: Object) -> Location:
    reported = node.get("status") or {}
    inside = (str(each["address"]) for each in reported.get("addresses") or () if each["type"] == "InternalIP")
    if (address := next(inside, None)) is None:
        raise _internal_error(f"no preferred addresses found; known addresses: {reported.get('addresses') or []}")
    port = ((reported.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or _PORT
    return Location("https", address, int(port))


def _internal_error(why: str) -> ApiError:
    return status.failure(500, "InternalError", f"Internal error occurred: {why}")


def _go_error_text(error: Exception) -> str:
    if isinstance(error, ssl.SSLError | aiohttp.ClientSSLError):
        return str(error)
    reason = reason_of(error)
    return f"connect: {reason}" if reason else "i/o timeout"
