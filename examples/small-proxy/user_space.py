"""The small proxy without address translation: it accepts connections and datagrams, and connects to an endpoint.

It behaves like other user-space proxies. Servers see the node's address instead of the client's. A connection is
accepted before an endpoint is chosen, and ends with a reset if no endpoint answers. Each direction of a connection
closes separately. A UDP flow ends after one second without a packet, or one second after its endpoint has left.

It adds cluster IPs to the loopback interface and listens there, and on the node's addresses for node ports. It needs
Python 3.11 and ip. The arguments are those of small_proxy.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

import small_proxy
from small_proxy import Endpoint, Port, log

DRAIN = 1.0  # seconds
PATIENCE = 1.0  # seconds to connect to an endpoint
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST

Address = tuple[str, int]


class Frontend(NamedTuple):
    """An address on which the proxy listens."""

    protocol: str
    address: str
    port: int


class Listener:
    """The socket of one frontend, with the endpoints for in-cluster and external clients."""

    def __init__(self, server: UserSpace, frontend: Frontend) -> None:
        self.server, self.frontend = server, frontend
        self.inside: list[Endpoint] = []
        self.outside: list[Endpoint] = []
        self.flows: dict[Address, Flow] = {}
        kind = socket.SOCK_STREAM if frontend.protocol == "tcp" else socket.SOCK_DGRAM
        self.socket = socket.socket(socket.AF_INET, kind)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.bind((frontend.address, frontend.port))
            if frontend.protocol == "tcp":
                self.socket.listen(1024)
        except OSError:
            self.socket.close()
            raise
        self.server.loop.add_reader(self.socket, self.accept if frontend.protocol == "tcp" else self.receive)

    def endpoints(self, client: str) -> list[Endpoint]:
        """Return the endpoints for a client, in random order."""
        chosen = self.inside if self.server.is_inside(client) else self.outside
        return random.sample(chosen, len(chosen))

    def update(self, inside: list[Endpoint], outside: list[Endpoint]) -> None:
        """Use these endpoints for new connections and flows. Flows to other endpoints end soon."""
        self.inside, self.outside = inside, outside
        known = {each[:2] for each in (*inside, *outside)}
        for flow in self.flows.values():
            flow.leaves = flow.leaves or (0.0 if flow.to in known else time.monotonic() + DRAIN)

    def close(self) -> None:
        """Stop listening. Open connections continue, and flows end."""
        self.server.loop.remove_reader(self.socket)
        self.socket.close()
        for flow in list(self.flows.values()):
            flow.close()

    def accept(self) -> None:
        """Accept all waiting connections."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                client, peer = self.socket.accept()
                client.setblocking(False)
                self.server.start(self.relay(client, self.endpoints(peer[0])))

    async def relay(self, client: socket.socket, endpoints: list[Endpoint]) -> None:
        """Connect to the first endpoint that answers, and copy both directions until they have ended."""
        loop, to = self.server.loop, None
        for each in endpoints:
            to = socket.socket()
            to.setblocking(False)
            try:
                await asyncio.wait_for(loop.sock_connect(to, each[:2]), PATIENCE)
                break
            except OSError:
                to.close()
                to = None
        ends = [client] if to is None else [client, to]
        try:
            if to is not None and await self.copy_both(client, to):
                return
            to = None
        finally:
            for end in ends:
                if to is None:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                end.close()

    async def copy_both(self, client: socket.socket, to: socket.socket) -> bool:
        """Copy both directions. Return whether both ended without an error."""
        both = [asyncio.ensure_future(each) for each in (self.copy(client, to), self.copy(to, client))]
        done, others = await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
        for each in others:
            each.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        return not others and all(each.exception() is None for each in done)

    async def copy(self, source: socket.socket, target: socket.socket) -> None:
        """Copy bytes until the source has ended, and then end this direction of the target."""
        while data := await self.server.loop.sock_recv(source, 65536):
            await self.server.loop.sock_sendall(target, data)
        target.shutdown(socket.SHUT_WR)

    def receive(self) -> None:
        """Forward all waiting datagrams, each in its client's flow."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                data, peer = self.socket.recvfrom(65536)
                flow = self.flows.get(peer)
                if flow is None and (endpoints := self.endpoints(peer[0])):
                    flow = self.flows[peer] = Flow(self, peer, endpoints[0][:2])
                if flow is not None:
                    flow.send(data)


class Flow:
    """The datagrams of one client, which all go to one endpoint."""

    def __init__(self, listener: Listener, client: Address, to: Address) -> None:
        self.listener, self.client, self.to = listener, client, to
        self.used, self.leaves = 0.0, 0.0  # `leaves` is when it must end, or 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.connect(to)
        listener.server.loop.add_reader(self.socket, self.answer)
        self.check()

    def check(self) -> None:
        """End the flow if it has expired; otherwise check again later."""
        now = time.monotonic()
        end = min(self.leaves or now + DRAIN, (self.used or now) + DRAIN)
        if end <= now:
            self.close()
        elif self.listener.flows.get(self.client) in (None, self):
            self.listener.server.loop.call_later(min(end - now, DRAIN / 10), self.check)

    def send(self, data: bytes) -> None:
        """Send a datagram to the endpoint."""
        self.used = time.monotonic()
        try:
            self.socket.send(data)
        except OSError:
            self.close()

    def answer(self) -> None:
        """Send all waiting answers to the client."""
        try:
            while True:
                self.listener.socket.sendto(self.socket.recv(65536), self.client)
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def close(self) -> None:
        """End the flow. The client's next datagram starts another one."""
        if self.listener.flows.get(self.client) is self:
            del self.listener.flows[self.client]
            self.listener.server.loop.remove_reader(self.socket)
            self.socket.close()


class UserSpace(small_proxy.Proxy):
    """Listens instead of writing rules."""

    def __init__(self, node: str, kubeconfig: str, cluster_cidrs: str) -> None:
        super().__init__(node, kubeconfig, cluster_cidrs)
        self.networks = [ipaddress.ip_network(each) for each in cluster_cidrs.split(",") if "." in each]
        self.listeners: dict[Frontend, Listener] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.loop = asyncio.new_event_loop()
        self.own = {each for each in addresses() if not each.startswith("127.")}
        left = addresses("lo") - {"127.0.0.1"}  # from an earlier start
        change("delete", left)
        self.own -= left
        self.cluster_ips: set[str] = set()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def is_inside(self, client: str) -> bool:
        """Return whether a client is a pod or this node itself."""
        parsed = ipaddress.ip_address(client)
        return client in self.own | self.cluster_ips or any(parsed in each for each in self.networks)

    def start(self, work: Any) -> None:
        """Run a coroutine concurrently with the others."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def apply(self, ports: list[Port]) -> None:
        """Listen on the addresses of these ports, and on no others."""
        served = {port.cluster_ip for port in ports}
        old, self.cluster_ips = self.cluster_ips, served
        change("add", served - old)
        asyncio.run_coroutine_threadsafe(self._listen(ports), self.loop).result()
        change("delete", old - served)

    async def _listen(self, ports: list[Port]) -> None:
        wanted: dict[Frontend, tuple[list[Endpoint], list[Endpoint]]] = {}
        for port in ports:
            if port.inside:
                wanted[Frontend(port.protocol, port.cluster_ip, port.number)] = port.inside, port.inside
            if port.node_port and port.anywhere:
                for address in self.own:
                    frontend = Frontend(port.protocol, address, port.node_port)
                    wanted[frontend] = port.anywhere, port.outside if port.local else port.anywhere
        for gone in self.listeners.keys() - wanted.keys():
            self.listeners.pop(gone).close()
        for frontend, endpoints in wanted.items():
            if frontend not in self.listeners:
                try:
                    self.listeners[frontend] = Listener(self, frontend)
                except OSError as error:  # a server on this node uses the port
                    log(f"error: {frontend}: {error}")
                    continue
            self.listeners[frontend].update(*endpoints)


def change(verb: str, ips: set[str]) -> None:
    """Add addresses to the loopback interface, or delete them."""
    for each in ips:
        subprocess.run(["ip", "address", verb, f"{each}/32", "dev", "lo"], check=False)


def addresses(*device: str) -> set[str]:
    """Return the IPv4 addresses of this node, or of one device."""
    command = ["ip", "-json", "-4", "address", "show", *device]
    shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {each["local"] for link in shown for each in link["addr_info"]}


if __name__ == "__main__":
    small_proxy.main(*sys.argv[1:], kind=UserSpace)
