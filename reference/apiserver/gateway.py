"""From an HTTP connection to the handlers: who is it, what do they want, in which form, and is it a watch.

aiohttp's low-level server is used without its router and middlewares: every path of this API has the same few shapes,
and a write through it costs less than half a millisecond.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from reference.apiserver import handlers, media, openapi, status, watch
from reference.apiserver.api import ApiServer
from reference.apiserver.discovery import Discovery
from reference.apiserver.handlers import Request, Response
from reference.apiserver.reviews import review
from reference.apiserver.routes import Routes
from reference.apiserver.watch import Hub, Watcher, WatchQuery
from reference.client import ApiError

MAX_BODY_BYTES = 3 * 1024 * 1024
_LOGGED_REQUESTS = 10_000
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_CHUNK = 256 * 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request, as evidence: `query` as it was sent, `accept` and `user_agent` from the headers."""

    method: str
    path: str
    query: str
    accept: str
    user_agent: str


class Gateway:
    """All HTTP of one server; runs in the server's loop."""

    def __init__(self, api: ApiServer, token: str, loop: asyncio.AbstractEventLoop, *, bookmark_seconds: float) -> None:
        self.log: deque[RequestRecord] = deque(maxlen=_LOGGED_REQUESTS)
        self.hub = Hub(api.registry.store, loop)
        self._registry = api.registry
        self._loop = loop
        self._bookmark_seconds = bookmark_seconds
        self._authorization = f"Bearer {token}".encode()
        self._routes = Routes(api.registry)
        self._discovery = Discovery(api.registry)
        self._server = web.Server(
            self._handle,
            request_factory=self._request,
            loop=loop,
            access_log=None,
            handler_cancellation=True,  # a watch of a client that went away ends then, not at its next event
        )

    def protocol(self) -> asyncio.Protocol:
        """A protocol for one connection."""
        return self._server()

    async def close(self) -> None:
        """End all watches, then all connections."""
        self.hub.end_all()
        self.hub.close()
        transports = [each.transport for each in self._server.connections if each.transport is not None]
        await self._server.shutdown(timeout=1)
        for each in transports:
            each.abort()  # a close would wait for the client's half of the TLS shutdown
        await asyncio.sleep(0)  # now the sockets are closed

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return web.BaseRequest(message, payload, protocol, writer, task, self._loop, client_max_size=MAX_BODY_BYTES)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        headers, path = request.headers, request.path
        self.log.append(
            RequestRecord(
                request.method,
                path,
                request.query_string,
                headers.get("Accept", ""),
                headers.get("User-Agent", ""),
            )
        )
        try:
            self._authenticate(headers.get("Authorization", ""), path)
            return await self._answer(request, path)
        except ApiError as error:
            return _json(error.code, error.status)
        except web.HTTPRequestEntityTooLarge:
            return _json(413, status.failure(413, "RequestEntityTooLarge", "the request is too large").status)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told and the server goes on
            _log.exception("%s %s", request.method, path)
            return _json(500, status.internal(repr(error)).status)

    def _authenticate(self, authorization: str, path: str) -> None:
        if path in _HEALTH:
            return
        if not hmac.compare_digest(authorization.encode(), self._authorization):
            raise status.unauthorized()

    async def _answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        accept = request.headers.get("Accept", "")
        if path in _HEALTH:
            return web.Response(text="ok")
        if path.startswith("/openapi/"):
            document = await asyncio.to_thread(openapi.document, self._registry, path, accept)
            return web.Response(body=document.body, headers={"Content-Type": document.content_type})
        if request.method == "GET" and (found := self._discovery.find(path, accept)):
            return web.Response(body=orjson.dumps(found.value), headers={"Content-Type": found.content_type})
        body = await request.read()
        if request.method == "POST" and (answer := review(path, body)):
            return _json(201, answer)
        return await self._answer_resource(request, path, accept, body)

    async def _answer_resource(
        self, request: web.BaseRequest, path: str, accept: str, body: bytes
    ) -> web.StreamResponse:
        route = self._routes.find(path)
        answer = media.negotiate(accept)
        if answer is None:
            raise status.not_acceptable(media.READABLE)
        headers = request.headers
        asked = Request(
            method=request.method,
            route=route,
            query=request.query,
            answer=answer,
            content_type=headers.get("Content-Type", ""),
            user_agent=headers.get("User-Agent", ""),
            body=body,
        )
        if request.method == "GET" and asked.query.get("watch") in {"true", "1"}:
            return await self._watch(request, asked)
        return _write(handlers.handle(self._registry, asked), yaml=answer.yaml)

    async def _watch(self, request: web.BaseRequest, asked: Request) -> web.StreamResponse:
        seconds = float(asked.query.get("timeoutSeconds") or 0)
        selection, query = handlers.selection(asked), _watch_query(asked)
        if request.transport is None:
            raise ConnectionResetError("the client has gone")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        try:
            watcher, first = self.hub.open(selection, asked.renderer, query, request.transport)
        except ApiError as error:
            if error.code != 410:
                raise
            await response.prepare(request)
            await response.write(watch.error_line(error))
            return response
        try:
            await response.prepare(request)
            for chunk in _chunks(first):
                await response.write(chunk)
            watcher.start()
            await self._stream(watcher, seconds, bookmarks=query.bookmarks)
        finally:
            self.hub.leave(watcher)
        return response

    async def _stream(self, watcher: Watcher, seconds: float, *, bookmarks: bool) -> None:
        timers = _Timers(self._loop, self.hub, watcher, self._bookmark_seconds if bookmarks else 0)
        timers.start(seconds)
        try:
            await watcher.ended.wait()
        finally:
            timers.stop()


class _Timers:
    """Ends a watch after its time, and sends bookmarks until then and at its end; `every` 0 is no bookmarks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, hub: Hub, watcher: Watcher, every: float) -> None:
        self._loop, self._hub, self._watcher, self._every = loop, hub, watcher, every
        self._running: dict[str, asyncio.TimerHandle] = {}

    def start(self, seconds: float) -> None:
        if seconds > 0:
            self._running["end"] = self._loop.call_later(seconds, self._end)
        if self._every:
            self._running["bookmark"] = self._loop.call_later(self._every, self._bookmark)

    def stop(self) -> None:
        for each in self._running.values():
            each.cancel()

    def _bookmark(self) -> None:
        self._hub.bookmark(self._watcher)
        self._running["bookmark"] = self._loop.call_later(self._every, self._bookmark)

    def _end(self) -> None:
        if self._every:
            self._hub.bookmark(self._watcher)
        self._watcher.end()


def _watch_query(asked: Request) -> WatchQuery:
    query = asked.query
    initial = query.get("sendInitialEvents")
    return WatchQuery(
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        initial=None if initial is None else initial in {"true", "1"},
        bookmarks=query.get("allowWatchBookmarks") in {"true", "1"},
    )


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines joined to writes of a good size: one object each is slow, all at once needs their memory twice."""
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        gathered.append(line)
        size += len(line)
        if size >= _CHUNK:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


def _write(answer: Response, *, yaml: bool) -> web.Response:
    response = web.Response(
        status=answer.code, body=answer.body, headers={"Content-Type": media.YAML if yaml else media.JSON}
    )
    for text in answer.warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def _json(code: int, value: Any) -> web.Response:
    return web.Response(status=code, body=orjson.dumps(value), headers={"Content-Type": media.JSON})
