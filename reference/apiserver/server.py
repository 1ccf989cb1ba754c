"""The API server over HTTPS, in its own thread, on a loopback address and on sockets that callers pass to `listen`."""

import asyncio
import base64
import functools
import os
import secrets
import socket
import ssl
import threading
from collections import deque
from collections.abc import Coroutine
from typing import Any, TypeVar

import trustme

from reference.apiserver import bounded_log
from reference.apiserver.access import bearer_of
from reference.apiserver.api import ApiServer
from reference.apiserver.http_frontend import HttpFrontend
from reference.apiserver.http_request import RequestRecord
from reference.apiserver.listening_port import LOOPBACK, ListeningPort, free_loopback
from reference.apiserver.pod_access.pod_location import OpenSocket

_LOGGED_REQUESTS = 10_000
_NAMES = ("localhost", LOOPBACK, "::1", "kubernetes.default.svc")

T = TypeVar("T")


class HttpServer:
    """Serves `api` until `stop` is called.

    `kubelet_tls` is the TLS context for connections to kubelets, with its own client certificate. A connection is
    closed if its client sends no complete request, or reads no events of a watch, for `silence_seconds`.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        bookmark_seconds: float = 60,
        silence_seconds: float = 90,  # as in kube-apiserver
        kubelet_tls: ssl.SSLContext | None = None,
    ) -> None:
        authority = trustme.CA()
        self.token = secrets.token_urlsafe(32)
        self.ca_pem = authority.cert_pem.bytes().decode()
        self.url = ""
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load(self._tls, authority.issue_cert(*_NAMES).private_key_and_cert_chain_pem.bytes())
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_log_error)
        self.thread = threading.Thread(target=self._run, name="apiserver", daemon=True)
        self._log: deque[RequestRecord] = deque(maxlen=_LOGGED_REQUESTS)
        self._open_socket: OpenSocket | None = None
        self.access = bearer_of(self.token)
        self._make_frontend = functools.partial(
            HttpFrontend,
            loop=self._loop,
            log=self._log,
            bookmark_seconds=bookmark_seconds,
            silence_seconds=silence_seconds,
            access=self.access,
            kubelet_tls=kubelet_tls,
        )
        self._frontend: HttpFrontend | None = self._new_frontend(api)
        self._ports: list[ListeningPort] = []

    def start(self) -> None:
        """Listen on a free loopback port, and set `url`."""
        listener = free_loopback()
        self.url = f"https://{LOOPBACK}:{listener.getsockname()[1]}"
        self.thread.start()
        self.listen(listener)

    def listen(self, sock: socket.socket) -> None:
        """Also listen on this bound TCP socket. The server owns the socket after this call."""
        self._call(self._listen(ListeningPort(sock)))

    def reach_pods(self, open_socket: OpenSocket) -> None:
        """Forward requests to pods and kubelets (503 before this call). The server's thread calls `open_socket`."""
        self._open_socket = open_socket
        if (frontend := self._frontend) is not None:
            frontend.reach_pods(open_socket)

    def replace(self, api: ApiServer | None) -> None:
        """Serve `api`, or nothing if None, with the same ports, certificate and token. All connections end."""
        if self.thread.is_alive():
            self._call(self._replace(api))
        else:
            self._frontend = self._new_frontend(api)

    def stop(self) -> None:
        """Close all watches and connections, and stop the server thread. Idempotent."""
        if self._loop.is_closed():
            return
        if self.thread.is_alive():
            self._call(self._shut_down())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self.thread.join()
        self._loop.close()

    def requests(self) -> list[RequestRecord]:
        """Return the most recent requests, oldest first."""
        return list(self._log)

    def end_watches(self) -> None:
        """End every watch, as a server does when it restarts, so that clients must watch again."""
        if (frontend := self._frontend) is not None:
            self._loop.call_soon_threadsafe(frontend.hub.end_all)

    def kubeconfig(self, *, token: str = "") -> dict[str, Any]:
        """Return a kubeconfig with the loopback URL and a token, by default the admin's."""
        cluster = {
            "server": self.url,
            "certificate-authority-data": base64.b64encode(self.ca_pem.encode()).decode(),
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "trafficdist", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": token or self.token}}],
            "contexts": [{"name": "trafficdist", "context": {"cluster": "trafficdist", "user": "admin"}}],
            "current-context": "trafficdist",
        }

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _new_frontend(self, api: ApiServer | None) -> HttpFrontend | None:
        return None if api is None else self._make_frontend(api, open_socket=self._open_socket)

    async def _listen(self, port: ListeningPort) -> None:
        self._ports.append(port)
        if self._frontend is None:
            await port.stop_listening()
        else:
            await port.listen(self._frontend.protocol, self._tls)

    async def _replace(self, api: ApiServer | None) -> None:
        await self._end()
        self._frontend = self._new_frontend(api)
        if self._frontend is not None:
            for port in self._ports:
                await port.listen(self._frontend.protocol, self._tls)

    async def _end(self) -> None:
        for port in self._ports:
            await port.stop_listening()
        if self._frontend is not None:
            await self._frontend.close()
        for port in self._ports:
            await port.hang_up()

    async def _shut_down(self) -> None:
        await self._end()
        for port in self._ports:
            port.close()
        await self._loop.shutdown_default_executor()


def _log_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    bounded_log.log.error("%s", context.get("message"), exc_info=context.get("exception"))


def _load(context: ssl.SSLContext, key_and_certificates: bytes) -> None:
    """Load the key and the certificates through a file in memory. A file on disk would remain after `kill -9`."""
    with open(os.memfd_create("tls"), "wb") as file:  # noqa: PTH123  it has no path
        file.write(key_and_certificates)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
