"""The DNS server: one thread that reads changes of the cluster and answers queries between them.

One thread does both, so answers need no locks. Once `synced` is true, every later answer includes all earlier writes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Self

from reference.client import Client, Event, Subscription
from reference.dns.index import ClusterIndex
from reference.dns.resolver import Resolver
from reference.features import Features

RESOURCES = ("services", "endpointslices")
POD_LOCATORS = "podlocators"  # give the location of clients, for topologyKeys
_AT_ONCE = 64  # maximum number of datagrams from one socket before other sockets are served
_MOST_DATAGRAM = 65535
_log = logging.getLogger(__name__)


IDLE_SECONDS = 10.0
"""The maximum time in seconds that a connection may be idle, or that a client may leave an answer unread."""

MOST_CONNECTIONS = 500
_CHUNK = 64 << 10
_LENGTH = struct.Struct("!H")


class _Connection:
    """One connection, with the query bytes that were read and the answers that are not written yet."""

    def __init__(self, sock: socket.socket, answer: Callable[[bytes], bytes | None]) -> None:
        self.sock = sock
        self._answer = answer
        self._read = bytearray()
        self._unsent = bytearray()
        self._ended = False

    def go_on(self, events: int) -> int:
        """Read and write without blocking. Return the events to wait for, or 0 at the end. Raises `OSError`."""
        if events & selectors.EVENT_READ:
            data = self.sock.recv(_CHUNK)
            self._ended = not data
            self._read += data
            self._answer_all()
        if self._unsent:
            with contextlib.suppress(BlockingIOError):
                del self._unsent[: self.sock.send(self._unsent)]
        if self._unsent:
            # Stop reading queries from a client until it reads its answers.
            return selectors.EVENT_WRITE
        return 0 if self._ended else selectors.EVENT_READ

    def _answer_all(self) -> None:
        while len(self._read) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._read)[0]
            if len(self._read) < end:
                return
            answer = self._answer(bytes(self._read[_LENGTH.size : end]))
            del self._read[:end]
            if answer is not None:
                self._unsent += _LENGTH.pack(len(answer)) + answer


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
        self._running = True
        self._selector = selectors.DefaultSelector()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._sockets: SimpleQueue[socket.socket] = SimpleQueue()  # to listen on, once there is something to say
        self._connections: dict[_Connection, float] = {}  # with the time until when; the oldest first
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name="dns", daemon=True)
        self._stopped = False

    def start(self) -> None:
        """Start to watch, and return immediately. Queries wait until the initial state has been read."""
        self._thread.start()
        self._subscription = self._client.subscribe(self._resources, self._deliver)

    def stop(self) -> None:
        """End the watch and the thread, and close all sockets. Idempotent. May be called without `start`."""
        if self._stopped:
            return
        self._stopped = True
        if self._subscription is not None:
            self._subscription.close()
        self._running = False
        if self._thread.is_alive():
            os.eventfd_write(self._bell, 1)
            self._thread.join()
        self._close_all()

    def listen(self, sock: socket.socket) -> None:
        """Answer queries on a bound UDP socket or a listening TCP socket. `stop` closes the socket."""
        sock.setblocking(False)
        self._sockets.put(sock)
        os.eventfd_write(self._bell, 1)

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The thread, which runs from `start` to `stop`."""
        return (self._thread,)

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
        if self._delivered - self._taken_in == 1 or event.type == "SYNCED":  # else the bell has rung already
            os.eventfd_write(self._bell, 1)

    def _run(self) -> None:
        while self._running:
            for key, events in self._selector.select(self._patience()):
                if key.data is None:
                    os.eventfd_read(self._bell)
                else:
                    key.data(events)
            self._take_in_events()
            self._expire()

    def _patience(self) -> float | None:
        oldest = next(iter(self._connections.values()), None)
        return None if oldest is None else max(0.0, oldest - time.monotonic())

    def _take_in_events(self) -> None:
        for _ in range(self._events.qsize()):
            event = self._events.get_nowait()
            if event.type == "SYNCED":
                self._has_state = True
            else:
                self._apply(event)
            self._taken_in += 1
        if not self._events.empty():
            os.eventfd_write(self._bell, 1)
        while self._has_state and not self._sockets.empty():
            self._register(self._sockets.get_nowait())

    def _apply(self, event: Event) -> None:
        try:
            self._resolver.apply(event)
        except Exception:  # noqa: BLE001 - one odd object must not end the answers about all others
            _log.exception("%s %s is not understood", event.resource, event.object.get("metadata", {}).get("name"))

    def _register(self, sock: socket.socket) -> None:
        work = self._accept if sock.type == socket.SOCK_STREAM else self._receive
        self._selector.register(sock, selectors.EVENT_READ, lambda _: work(sock))

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

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, sender = listener.accept()
        except OSError:  # gone before it was accepted, or no descriptor is left for it
            return
        sock.setblocking(False)
        while len(self._connections) >= MOST_CONNECTIONS:
            self._end(next(iter(self._connections)))
        connection = _Connection(sock, lambda packet: self._answer(packet, sender[0], over_tcp=True))
        self._connections[connection] = time.monotonic() + IDLE_SECONDS
        self._selector.register(sock, selectors.EVENT_READ, lambda events: self._go_on(connection, events))

    def _go_on(self, connection: _Connection, events: int) -> None:
        try:
            wanted = connection.go_on(events)
        except OSError:
            wanted = 0
        if not wanted:
            self._end(connection)
            return
        self._connections.pop(connection)
        self._connections[connection] = time.monotonic() + IDLE_SECONDS
        if wanted != self._selector.get_key(connection.sock).events:
            self._selector.modify(connection.sock, wanted, lambda events: self._go_on(connection, events))

    def _expire(self) -> None:
        now = time.monotonic()
        for connection in [each for each, until in self._connections.items() if until <= now]:
            self._end(connection)

    def _end(self, connection: _Connection) -> None:
        if self._connections.pop(connection, None) is not None:
            self._selector.unregister(connection.sock)
            connection.sock.close()

    def _close_all(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        while not self._sockets.empty():
            self._sockets.get_nowait().close()
        self._selector.close()
        os.close(self._bell)
