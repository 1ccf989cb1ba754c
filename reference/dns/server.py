"""The DNS server: one thread that processes watch events, and answers queries between the events, without locks."""

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Callable
from queue import SimpleQueue

from reference.client import Client, Event, Subscription
from reference.dns.authority import ZoneAuthority
from reference.dns.index import ClusterIndex
from reference.features import Features
from reference.serving import end

RESOURCES = ("services", "endpointslices")
POD_LOCATORS = "podlocators"  # contain the node labels of clients, for topologyKeys
_AT_ONCE = 64  # maximum number of datagrams from one socket before other sockets are served
_MOST_DATAGRAM = 65535
_log = logging.getLogger(__name__)

IDLE_SECONDS = 10.0
"""The maximum time in seconds that a connection may be idle, or that a client may leave an answer unread."""

MOST_CONNECTIONS = 500
_LENGTH = struct.Struct("!H")


class DnsServer:
    """Answers queries for the DNS zone of a cluster, on sockets in any network namespace (KEP-536, DNS server changes).

    Call `start` once and then `stop`, from the same thread. Any thread may call `listen` and `synced`.
    """

    def __init__(
        self,
        client: Client,
        *,
        features: Features | None = None,
        zone: str = "cluster.local",
        ttl: int = 5,
        authority: Callable[..., ZoneAuthority] = ZoneAuthority,
    ) -> None:
        """The gate ServiceTopology enables `topologyKeys`; without `features`, it is enabled. `ttl` is in seconds."""
        topology = (features or Features(gates={"ServiceTopology": True})).enabled("ServiceTopology")
        self._client = client
        self._resources = (*RESOURCES, POD_LOCATORS) if topology else RESOURCES
        self._authority = authority(ClusterIndex(topology=topology), zone=zone, ttl=ttl)
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._delivered = 0
        self._taken_in = 0
        self._has_state = False
        self._loop: asyncio.AbstractEventLoop  # set by `start`; runs in the server's thread
        self._sockets: SimpleQueue[socket.socket] = SimpleQueue()  # wait until the initial state has been read
        self._datagrams: list[socket.socket] = []
        self._servers: list[asyncio.Task[asyncio.Server]] = []
        self._connections: dict[asyncio.Task[None], None] = {}  # the longest idle connection first
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name="dns", daemon=True)

    def start(self) -> None:
        """Start watching, and return immediately. Queries wait until the initial state has been read."""
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self._subscription = self._client.subscribe(self._resources, self._deliver)

    def stop(self) -> None:
        """End the watch and the thread, and close all sockets. Idempotent. May be called without `start`."""
        if self._subscription is not None:
            self._subscription.close()
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
            self._loop.run_until_complete(self._close())
            self._loop.close()
            self._subscription = None
        while not self._sockets.empty():
            self._sockets.get_nowait().close()

    def listen(self, sock: socket.socket) -> None:
        """Answer queries on a bound UDP socket or a listening TCP socket. `stop` closes the socket."""
        sock.setblocking(False)
        self._sockets.put(sock)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._take_in_events)

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        return (self._thread,)

    def synced(self) -> bool:
        """Return whether every later answer will reflect all events that were delivered before this call."""
        delivered = self._delivered
        return self._has_state and self._taken_in >= delivered

    def _deliver(self, event: Event) -> None:
        """Queue and count an event. The client holds a lock during this call, so no increment is lost."""
        self._delivered += 1
        self._events.put(event)
        if self._delivered - self._taken_in == 1 or event.type == "SYNCED":  # otherwise a call is already scheduled
            self._loop.call_soon_threadsafe(self._take_in_events)

    def _run(self) -> None:
        self._loop.run_forever()

    def _take_in_events(self) -> None:
        for _ in range(self._events.qsize()):
            event = self._events.get_nowait()
            if event.type == "SYNCED":
                self._has_state = True
            else:
                self._apply(event)
            self._taken_in += 1
        if not self._events.empty():
            self._loop.call_soon(self._take_in_events)
        while self._has_state and not self._sockets.empty():
            sock = self._sockets.get_nowait()
            if sock.type == socket.SOCK_STREAM:
                self._servers.append(self._loop.create_task(asyncio.start_server(self._converse, sock=sock)))
            else:
                self._datagrams.append(sock)
                self._loop.add_reader(sock, self._receive, sock)

    def _apply(self, event: Event) -> None:
        try:
            self._authority.apply(event)
        except Exception:  # noqa: BLE001 - a malformed object must not affect answers about other objects
            name = event.object.get("metadata", {}).get("name")
            _log.exception("%s %s cannot be read and is skipped", event.resource, name)

    def _receive(self, sock: socket.socket) -> None:
        answer, receive, send = self._answer, sock.recvfrom, sock.sendto
        for _ in range(_AT_ONCE):
            try:
                packet, sender = receive(_MOST_DATAGRAM)
            except OSError:  # no more datagrams, or an ICMP error for an earlier answer
                return
            reply = answer(packet, sender[0])
            if reply is not None:
                try:
                    send(reply, sender)
                except OSError as error:  # a full buffer, or no route to the client; clients expect lost datagrams
                    _log.debug("no answer to %s: %s", sender[0], error)

    def _answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        try:
            return self._authority.answer(packet, client.removeprefix("::ffff:"), over_tcp=over_tcp)
        except Exception:  # noqa: BLE001 - the server continues
            _log.exception("cannot answer a query from %s", client)
            return None

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer queries on a TCP connection. Read a query only after the kernel has accepted the previous answer."""
        task = asyncio.current_task()
        assert task is not None
        while len(self._connections) >= MOST_CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
        client = writer.get_extra_info("peername")[0]
        writer.transport.set_write_buffer_limits(0)
        try:
            while True:
                self._connections.pop(task, None)
                self._connections[task] = None
                async with asyncio.timeout(IDLE_SECONDS):
                    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                    answer = self._answer(await reader.readexactly(length), client, over_tcp=True)
                    if answer is not None:
                        writer.write(_LENGTH.pack(len(answer)) + answer)
                        await writer.drain()
        except (OSError, EOFError):  # the client is idle, or has disconnected
            pass
        finally:
            writer.transport.abort()
            self._connections.pop(task, None)

    async def _close(self) -> None:
        for each in self._datagrams:
            self._loop.remove_reader(each)
            each.close()
        await end(await asyncio.gather(*self._servers), self._connections)
