"""An HTTP server (aiohttp) that serves watches, and forwards other requests to the handlers, pods and kubelets."""

import asyncio
import functools
import math
import ssl
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from reference.apiserver import bounded_log, handlers, openapi, status, watch
from reference.apiserver.access import AccessChecks
from reference.apiserver.api import ApiServer
from reference.apiserver.connection import Connection, abort
from reference.apiserver.dispatcher import Dispatcher, failure
from reference.apiserver.handlers import Request, Response
from reference.apiserver.http_request import HttpRequest, RequestRecord
from reference.apiserver.pod_access import pod_location
from reference.apiserver.pod_access.kubelets import KubeletForwarder
from reference.apiserver.pod_access.pod_location import OpenSocket
from reference.apiserver.pod_access.proxy import PodProxy
from reference.apiserver.watch import Watcher, WatchHub, WatchQuery
from reference.client import ApiError, Object

MAX_BODY_BYTES = 3 * 1024 * 1024
_GRACE = 0.005
"""The time in seconds for watches to end cleanly when the server stops, before their connections are closed."""


class HttpFrontend:
    """Serves HTTP for one API server until `close`. `log` receives a record of each request."""

    def __init__(
        self,
        api: ApiServer,
        *,
        loop: asyncio.AbstractEventLoop,
        log: deque[RequestRecord],
        bookmark_seconds: float,
        silence_seconds: float,
        access: AccessChecks,
        open_socket: OpenSocket | None = None,
        kubelet_tls: ssl.SSLContext | None = None,
    ) -> None:
        self.hub = WatchHub(api.registry.store, loop)
        self._registry = api.registry
        self._loop = loop
        self._bookmark_seconds = bookmark_seconds
        self.dispatcher = Dispatcher(api.registry, log, access)
        self._access = access
        self._pods = PodProxy(api.registry, open_socket)
        self._kubelets = KubeletForwarder(api.registry, open_socket, kubelet_tls)
        self._plain: set[Connection] = set()
        self._silence = silence_seconds
        self._long = ThreadPoolExecutor(1, "apiserver-long")
        """One thread for all long requests, so that the event loop still gets half of the CPU time despite the GIL."""
        self._sweep: asyncio.TimerHandle | None = None
        self._server = web.Server(
            self._handle,
            request_factory=functools.partial(web.BaseRequest, loop=loop, client_max_size=MAX_BODY_BYTES),
            loop=loop,
            access_log=None,
            logger=bounded_log.log,
            keepalive_timeout=silence_seconds,
            auto_decompress=False,
            handler_cancellation=True,  # a watch ends when its client disconnects, not at its next event
        )

    def reach_pods(self, open_socket: OpenSocket) -> None:
        self._pods.open_socket = self._kubelets.open_socket = open_socket

    def protocol(self) -> asyncio.BaseProtocol:
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._silence / 2, self._end_silent)
        return Connection(self._answer_at_once, self._server, self._plain)

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self.hub.end_all()
        self.hub.close()
        transports = [each.transport for each in self._server.connections if each.transport is not None]
        await self._server.shutdown(timeout=_GRACE)
        for each in transports:
            abort(each)
        for plain in list(self._plain):
            plain.abort()
        self._long.shutdown(wait=False, cancel_futures=True)
        await self._pods.close()
        await self._kubelets.close()
        await asyncio.sleep(0)  # now the sockets are closed

    def _answer_at_once(self, asked: HttpRequest) -> Response | None:
        return None if self.dispatcher.is_long(asked) else self.dispatcher.answer(asked)

    def _end_silent(self) -> None:
        for each in list(self._plain):
            each.end_if_silent(time.monotonic() - self._silence)
        self._sweep = self._loop.call_later(self._silence / 2, self._end_silent) if self._plain else None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = HttpRequest(request.method, request.path, request.query_string, request.query, request.headers)
        try:
            user = self.dispatcher.authenticate(asked)
            if wanted := pod_location.parse(asked.path):
                self.dispatcher.record(asked)
                self._access.check(user, asked, wanted)
                forwarder = self._pods if wanted.subresource == "proxy" else self._kubelets
                return await forwarder.forward(request, wanted)
            asked = replace(asked, body=await self._body(request))
            if self.dispatcher.is_long(asked):
                answer = await self._loop.run_in_executor(self._long, self.dispatcher.answer, asked)
            else:
                answer = self.dispatcher.answer(asked)
            if answer is None:
                self.dispatcher.record(asked)
                return await self._answer_later(request, asked, user)
        except web.HTTPRequestEntityTooLarge:
            answer = failure(status.too_large("the request is too large"), asked)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - as in `Dispatcher.answer`
            answer = failure(error, asked)
        return _response(answer)

    async def _body(self, request: web.BaseRequest) -> bytes:
        encoding = request.headers.get("Content-Encoding", "").lower()
        if encoding not in {"", "identity"}:
            raise status.bad_request(f"the body of the request has an unknown Content-Encoding: {encoding[:100]}")
        try:
            async with asyncio.timeout(self._silence):
                return await request.read()
        except TimeoutError:
            if request.transport is not None:
                abort(request.transport)
            raise ConnectionResetError("the body of the request was not complete in time") from None
        except (web.RequestPayloadError, HttpProcessingError) as error:
            raise status.bad_request(f"couldn't read the body of the request: {error}") from None

    async def _answer_later(self, request: web.BaseRequest, asked: HttpRequest, user: Object) -> web.StreamResponse:
        if asked.path.startswith("/openapi/"):
            if request.method != "GET":
                raise status.method_not_allowed(request.method)
            document = await asyncio.to_thread(openapi.document, self._registry, asked.path)
            return web.Response(body=document, headers={"Content-Type": "application/json"})
        return await self._watch(request, self.dispatcher.resource_request(asked, user))

    async def _watch(self, request: web.BaseRequest, asked: Request) -> web.StreamResponse:
        seconds = handlers.integer(asked.http.query, "timeoutSeconds") or 0
        selection, query = handlers.selection(asked), _watch_query(asked)
        if request.transport is None:
            raise ConnectionResetError("the client has disconnected")
        request.transport.set_write_buffer_limits(watch.CHUNK)  # that of TLS is half a megabyte
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        watcher = self.hub.open(selection, asked.renderer, query, request.transport)
        try:
            await response.prepare(request)
            await self._stream(response, watcher, seconds, bookmarks=query.bookmarks)
        except TimeoutError:  # a slow client, whose connection would keep its unread lines
            abort(request.transport)
            raise ConnectionResetError("the client does not read the events of its watch") from None
        finally:
            self.hub.leave(watcher)
        return response

    async def _stream(self, response: web.StreamResponse, watcher: Watcher, seconds: float, *, bookmarks: bool) -> None:
        """Send missed events and periodic bookmarks until the watch ends, and a last bookmark before it times out."""
        now, every = self._loop.time, self._bookmark_seconds if bookmarks else math.inf
        end, next_bookmark = now() + (seconds if seconds > 0 else math.inf), now() + every
        try:
            while not watcher.ended:
                while (missed := self.hub.missed(watcher)) is not None:
                    await self._send(response, watcher, missed)
                try:
                    async with asyncio.timeout_at(min(end, next_bookmark)):
                        await watcher.called()
                except TimeoutError:
                    next_bookmark = now() + every
                    if bookmarks:
                        self.hub.bookmark(watcher)
                    if now() >= end:
                        watcher.end()
        except ApiError as error:  # 410: too slow
            await self._send(response, watcher, watch.error_line(error))

    async def _send(self, response: web.StreamResponse, watcher: Watcher, lines: bytes) -> None:
        """Raises `TimeoutError` if the client does not read in time."""
        if lines:
            self.hub.count(watcher, len(lines))
            async with asyncio.timeout(self._silence):
                await response.write(lines)


def _watch_query(asked: Request) -> WatchQuery:
    query = asked.http.query
    initial = query.get("sendInitialEvents")
    return WatchQuery(
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        initial=None if initial is None else initial in {"true", "1"},
        bookmarks=query.get("allowWatchBookmarks") in {"true", "1"},
    )


def _response(answer: Response) -> web.Response:
    response = web.Response(status=answer.code, body=answer.body, headers={"Content-Type": answer.content_type})
    for each in answer.warning_headers():
        response.headers.add("Warning", each)
    return response
