"""The DNS server: one thread that reads changes of the cluster and answers queries between them.

One thread does both, so answers need no locks. Once `synced` is true, every later answer includes all earlier writes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Self

from reference.client import Client, Event, Subscription
from reference.dns.index import ClusterIndex
from reference.dns.resolver import Resolver
from reference.features import Features
from reference.serving import ServerLoop

RESOURCES = ("services", "endpointslices")
POD_LOCATORS = "podlocators"  # give the location of clients, for topologyKeys
_AT_ONCE = 64  # maximum number of datagrams from one socket before other sockets are served
_MOST_DATAGRAM = 65535
_log = logging.getLogger(__name__)


IDLE_SECONDS = 10.0
"""The maximum time in seconds that a connection may be idle, or that a client may leave an answer unread."""

MOST_CONNECTIONS = 500
_LENGTH = struct.Struct("!H")


class DnsServer:
    """Answers queries for the zone of a cluster, on sockets in any network namespace. A context manager.

    Source: KEP-536, DNS server changes. Names and records follow Kubernetes' DNS-Based Service Discovery. Call `start`
    once and `stop` at the end, from one thread; `listen` and `synced` may be called from any thread.
    """

    def __init__(
        self,
        client: Client,
        *,
        features: Features | None = None,
        zone: str = "cluster.local",
        ttl: int = 5,
        resolver: Callable[..., Resolver] = Resolver,
    ) -> None:
        """With the gate ServiceTopology in `features`, `topologyKeys` are used. `ttl` of all records is in seconds."""
        topology = (features or Features(gates={"ServiceTopology": True})).enabled("ServiceTopology")
        self._client = client
        self._resources = (*RESOURCES, POD_LOCATORS) if topology else RESOURCES
        self._resolver = resolver(ClusterIndex(topology=topology), zone=zone, ttl=ttl)
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._delivered = 0
        self._taken_in = 0
        self._has_state = False
        self._serving = ServerLoop("dns", patience=lambda: IDLE_SECONDS, most_connections=MOST_CONNECTIONS)
        self._waiting: list[socket.socket] = []  # to listen on, once there is something to say
        self._receiving: list[socket.socket] = []
        self._subscription: Subscription | None = None

    def start(self) -> None:
        """Start to watch, and return immediately. Queries wait until the initial state has been read."""
        self._serving.start()
        self._subscription = self._client.subscribe(self._resources, self._deliver)

    def stop(self) -> None:
        """End the watch and the thread, and close all sockets. Idempotent. May be called without `start`."""
        if self._subscription is not None:
            self._subscription.close()
        self._serving.stop()
        for each in (*self._waiting, *self._receiving):
            each.close()

    def listen(self, sock: socket.socket) -> None:
        """Answer queries on a bound UDP socket or a listening TCP socket. `stop` closes the socket."""
        sock.setblocking(False)
        self._waiting.append(sock)
        self._serving.loop.call_soon_threadsafe(self._take_in_events)

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The thread, which runs from `start` to `stop`."""
        return (self._serving.thread,)

    def synced(self) -> bool:
        """Return whether every later answer will include all events that were delivered before this call."""
        delivered = self._delivered
        return self._has_state and self._taken_in >= delivered

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _deliver(self, event: Event) -> None:
        """Queue an event. Runs in the writer's thread while the store is locked, so the count is exact."""
        self._delivered += 1
        self._events.put(event)
        if self._delivered - self._taken_in == 1 or event.type == "SYNCED":  # else the loop has been called already
            self._serving.loop.call_soon_threadsafe(self._take_in_events)

    def _take_in_events(self) -> None:
        for _ in range(self._events.qsize()):
            event = self._events.get_nowait()
            if event.type == "SYNCED":
                self._has_state = True
            else:
                self._apply(event)
            self._taken_in += 1
        if not self._events.empty():
            self._serving.loop.call_soon(self._take_in_events)
        while self._has_state and self._waiting:
            self._open(self._waiting.pop())

    def _apply(self, event: Event) -> None:
        try:
            self._resolver.apply(event)
        except Exception:  # noqa: BLE001 - one odd object must not end the answers about all others
            _log.exception("%s %s is not understood", event.resource, event.object.get("metadata", {}).get("name"))

    def _open(self, sock: socket.socket) -> None:
        if sock.type == socket.SOCK_STREAM:
            self._opening = asyncio.get_running_loop().create_task(self._serving.accept(sock, self._converse))
        else:
            self._receiving.append(sock)
            self._serving.loop.add_reader(sock, self._receive, sock)

    def _receive(self, sock: socket.socket) -> None:
        """Answer queued datagrams, up to a fixed number."""
        answer, receive, send = self._answer, sock.recvfrom, sock.sendto
        for _ in range(_AT_ONCE):
            try:
                packet, sender = receive(_MOST_DATAGRAM)
            except OSError:  # no more of them, or an ICMP error for one that was sent
                return
            reply = answer(packet, sender[0])
            if reply is not None:
                try:
                    send(reply, sender)
                except OSError as error:  # a full buffer or no route back: as if the network had lost it
                    _log.debug("no answer to %s: %s", sender[0], error)

    def _answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        try:
            return self._resolver.answer(packet, client.removeprefix("::ffff:"), over_tcp=over_tcp)
        except Exception:  # noqa: BLE001 - nor one odd query
            _log.exception("no answer to %s", client)
            return None

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the queries of a connection. Stop reading queries while the client does not read its answers."""
        client = writer.get_extra_info("peername")[0]
        while True:
            async with asyncio.timeout(IDLE_SECONDS):
                length = await reader.readexactly(_LENGTH.size)
                packet = await reader.readexactly(*_LENGTH.unpack(length))
                self._serving.heard(writer)
                if answer := self._answer(packet, client, over_tcp=True):
                    writer.write(_LENGTH.pack(len(answer)) + answer)
                    await writer.drain()
