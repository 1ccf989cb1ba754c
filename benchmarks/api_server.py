"""What the API server carries: writes per second with watchers, and how soon a watcher sees a write.

    python benchmarks/api_server.py [--quick]

The server runs in this process; writers and watchers are one client in another process, over TLS on loopback, so
both have a core. Side by side: the same writes and watchers inside this process, without HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import ssl
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue

import aiohttp
import orjson

from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer

WATCHERS = 10
RESOURCE, NAMESPACE = "endpointslices", "default"
COLLECTION = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/{RESOURCE}"


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run; latencies in milliseconds, from the sending of a write to the last watcher that sees it."""

    writes_per_second: float
    p50: float
    p99: float


def slice_of(name: str, stamp: int) -> dict[str, object]:
    """An EndpointSlice with ten endpoints; `stamp` makes each write a change."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "annotations": {"stamp": str(stamp)}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        "endpoints": [{"addresses": [f"10.244.1.{each}"], "conditions": {"ready": True}} for each in range(10)],
    }


class Arrivals:
    """When the last of the watchers saw each write."""

    def __init__(self) -> None:
        self.sent: dict[int, float] = {}
        self.latencies: list[float] = []
        self._seen: dict[int, int] = {}
        self._expected = 0
        self._complete = asyncio.Event()

    def saw(self, stamp: int) -> None:
        seen = self._seen[stamp] = self._seen.get(stamp, 0) + 1
        if seen == WATCHERS:
            self.latencies.append((time.perf_counter() - self.sent[stamp]) * 1000)
            if len(self.latencies) == self._expected:
                self._complete.set()

    async def all_seen(self, writes: int) -> None:
        self._expected = writes
        if len(self.latencies) < writes:
            await self._complete.wait()

    def figures(self, writes: int, seconds: float) -> Figures:
        centiles = statistics.quantiles(self.latencies, n=100)
        return Figures(writes / seconds, centiles[49], centiles[98])


async def follow(session: aiohttp.ClientSession, url: str, arrivals: Arrivals, ready: asyncio.Event) -> None:
    query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with session.get(url + COLLECTION + query) as response:
        while line := await response.content.readline():
            if line.startswith(b'{"type":"BOOKMARK"'):
                ready.set()
            elif (at := line.find(b'"stamp":"')) >= 0:
                stamp = int(line[at + 9 : line.index(b'"', at + 9)])
                if stamp:
                    arrivals.saw(stamp)


async def write(session: aiohttp.ClientSession, url: str, name: str, stamps: range, arrivals: Arrivals) -> None:
    target = f"{url}{COLLECTION}/{name}"
    headers = {"Content-Type": "application/json"}
    for stamp in stamps:
        body = orjson.dumps(slice_of(name, stamp))
        arrivals.sent[stamp] = time.perf_counter()
        async with session.put(target, data=body, headers=headers) as response:
            await response.read()
            response.raise_for_status()


async def over_http(url: str, token: str, ca_pem: str, *, writers: int, writes: int) -> Figures:
    tls = ssl.create_default_context(cadata=ca_pem)
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    headers = {"Authorization": f"Bearer {token}"}
    timeout = aiohttp.ClientTimeout(total=None)
    arrivals = Arrivals()
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, timeout=timeout, read_bufsize=1 << 22
    ) as session:
        for index in range(writers):
            body = slice_of(f"s{index}", 0)
            async with session.post(url + COLLECTION, json=body) as response:
                if response.status not in {201, 409}:
                    response.raise_for_status()
        ready = [asyncio.Event() for _ in range(WATCHERS)]
        watches = [asyncio.create_task(follow(session, url, arrivals, each)) for each in ready]
        await asyncio.gather(*(each.wait() for each in ready))
        share = writes // writers
        start = time.perf_counter()
        await asyncio.gather(
            *(
                write(session, url, f"s{index}", range(1 + index * share, 1 + (index + 1) * share), arrivals)
                for index in range(writers)
            )
        )
        seconds = time.perf_counter() - start
        await arrivals.all_seen(share * writers)
        for each in watches:
            each.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
    return arrivals.figures(share * writers, seconds)


def client(answer: Connection, *where: str, writers: int, writes: int) -> None:
    """The client's process."""
    figures = asyncio.run(over_http(*where, writers=writers, writes=writes))
    answer.send(json.dumps([figures.writes_per_second, figures.p50, figures.p99]))


def measure_http(writers: int, writes: int) -> Figures:
    server = HttpServer(ApiServer())
    server.start()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(
        target=client,
        args=(there, server.url, server.token, server.ca_pem),
        kwargs={"writers": writers, "writes": writes},
    )
    process.start()
    figures = Figures(*json.loads(here.recv()))
    process.join()
    server.stop()
    return figures


def measure_in_process(writes: int) -> Figures:
    """One writer and ten queues, no HTTP: the cost of the rules and the store."""
    api = ApiServer()
    queues: list[SimpleQueue[object]] = [SimpleQueue() for _ in range(WATCHERS)]
    api.create(RESOURCE, NAMESPACE, slice_of("s0", 0))
    subscriptions = [api.subscribe([RESOURCE], each.put) for each in queues]
    latencies = []
    start = time.perf_counter()
    for stamp in range(1, writes + 1):
        body = slice_of("s0", stamp)
        sent = time.perf_counter()
        api.update(RESOURCE, NAMESPACE, body)
        latencies.append((time.perf_counter() - sent) * 1000)
    seconds = time.perf_counter() - start
    for each in subscriptions:
        each.close()
    centiles = statistics.quantiles(latencies, n=100)
    return Figures(writes / seconds, centiles[49], centiles[98])


def median(run: Callable[[], Figures], times: int) -> Figures:
    runs = [run() for _ in range(times)]
    return Figures(*(statistics.median(getattr(each, name) for each in runs) for name in Figures.__slots__))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short run of each")
    quick = parser.parse_args().quick
    writes, times = (2_000, 1) if quick else (10_000, 3)
    print(f"{WATCHERS} watchers; EndpointSlices of 10 endpoints; medians of {times}")
    print(f"{'':34}{'writes/s':>10}{'p50 ms':>10}{'p99 ms':>10}")
    rows: list[tuple[str, Callable[[], Figures]]] = [
        ("HTTPS, 1 writer", lambda: measure_http(1, writes)),
        ("HTTPS, 16 writers", lambda: measure_http(16, writes)),
        ("in process, 1 writer, 10 queues", lambda: measure_in_process(writes)),
    ]
    for name, run in rows:
        figures = median(run, times)
        print(f"{name:34}{figures.writes_per_second:>10,.0f}{figures.p50:>10.2f}{figures.p99:>10.2f}")


if __name__ == "__main__":
    main()
