"""Load on the API server: writes per second with watchers, and the latency until a watcher receives a write.

    python benchmarks/api_server.py [--quick]

The server runs in this process. Writers and watchers are one client in another process, over TLS on loopback, so that
each process has a core. Each writer replaces its own object (PUT on a keep-alive connection) and waits for the response
before the next write; one annotation changes, or all endpoints. Ten watchers read every byte of every event, and look
for its stamp. The client is `benchmarks/api_client.py`. The CPU time is that of the whole process for each write,
including its ten deliveries. For comparison, the same writes are made inside this process, without HTTP.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import api_client
import orjson
from api_client import STAMP, Arrivals, Reader, Where, Writer

from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer

WATCHERS = 10
NAMESPACE = "default"
_WATCH = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

Body = Callable[[str, str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Load:
    """A kind of write. `body` returns the body for a name and a stamp."""

    resource: str
    prefix: str
    body: Body

    @property
    def path(self) -> str:
        return f"{self.prefix}/namespaces/{NAMESPACE}/{self.resource}"


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of one run. Latencies are in milliseconds, from sending a write until the last watcher receives it.
    CPU time is in microseconds per write.
    """

    writes_per_second: float
    p50: float
    p99: float
    server: float
    client: float


def slice_of(name: str, stamp: str, *, endpoints: int = 10, hostname: str = "") -> dict[str, Any]:
    """Return an EndpointSlice. Its endpoints have this host name, if it is given."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "annotations": {"stamp": stamp}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": [f"10.244.1.{each}"], "conditions": {"ready": True}} | _named(hostname)
            for each in range(endpoints)
        ],
    }


def changing_slice(name: str, stamp: str) -> dict[str, Any]:
    """Return an EndpointSlice in which every endpoint changes with every write."""
    return slice_of(name, stamp, hostname=f"h{stamp}")


def pod_of(name: str, stamp: str) -> dict[str, Any]:
    """Return a Pod of about 800 bytes, including the fields that the server adds."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}, "annotations": {"stamp": stamp}},
        "spec": {
            "nodeName": "a1",
            "containers": [
                {
                    "name": "web",
                    "image": "registry.example/web:1.0",
                    "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                }
            ],
        },
    }


SLICES = "/apis/discovery.k8s.io/v1"
LOADS = {
    "Pod": Load("pods", "/api/v1", pod_of),
    "slice of 10": Load("endpointslices", SLICES, slice_of),
    "slice of 10, all endpoints change": Load("endpointslices", SLICES, changing_slice),
}


def client(answer: Connection, where: Where, load: str, writers: int, writes: int) -> None:
    """The main function of the client's process."""
    kind, share = LOADS[load], writes // writers
    arrivals = Arrivals(share * writers, WATCHERS)
    for index in range(writers):
        api_client.call(where, "POST", kind.path, orjson.dumps(kind.body(f"s{index}", "0" * len(STAMP))))
    every = [
        Writer(where, _put(where, kind, f"s{index}"), range(1 + index * share, 1 + (index + 1) * share), arrivals)
        for index in range(writers)
    ]
    readers = [Reader(where, kind.path + _WATCH, arrivals) for _ in range(WATCHERS)]
    answer.send("ready")
    answer.recv()
    used = time.process_time()
    seconds = api_client.run(every, readers, arrivals, share * writers)
    used = time.process_time() - used
    answer.send(json.dumps([share * writers / seconds, used / (share * writers), arrivals.latencies]))


def measure_http(load: str, writers: int, writes: int) -> Figures:
    server = HttpServer(ApiServer())
    server.start()
    where = Where(server.url, server.token, server.ca_pem)
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=client, args=(there, where, load, writers, writes))
    process.start()
    here.recv()
    used = time.process_time()
    here.send("go")
    per_second, client_cpu, latencies = json.loads(here.recv())
    used = time.process_time() - used
    process.join()
    server.stop()
    return _figures(per_second, latencies, used / writes, client_cpu)


def measure_in_process(load: str, writes: int) -> Figures:
    """Run one writer and ten queues without HTTP, to measure the rules, the store, and the creation of the body."""
    api, kind = ApiServer(), LOADS[load]
    queues: list[SimpleQueue[object]] = [SimpleQueue() for _ in range(WATCHERS)]
    api.create(kind.resource, NAMESPACE, kind.body("s0", "0"))
    subscriptions = [api.subscribe([kind.resource], each.put) for each in queues]
    latencies = []
    used, start = time.process_time(), time.perf_counter()
    for stamp in range(1, writes + 1):
        body = kind.body("s0", f"{stamp:09}")
        sent = time.perf_counter()
        api.update(kind.resource, NAMESPACE, body)
        latencies.append(time.perf_counter() - sent)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    for each in subscriptions:
        each.close()
    return _figures(writes / seconds, latencies, used / writes, 0)


def median(run: Callable[[], Figures], times: int) -> Figures:
    runs = [run() for _ in range(times)]
    return Figures(*(statistics.median(getattr(each, name) for each in runs) for name in Figures.__slots__))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short run of each")
    quick = parser.parse_args().quick
    writes, times = (2_000, 1) if quick else (10_000, 3)
    print(f"{WATCHERS} watchers; medians of {times}; CPU in us a write")
    print(f"{'':48}{'writes/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'server':>9}{'client':>9}")
    for load in LOADS:
        rows: list[tuple[str, Callable[[], Figures]]] = [
            ("HTTPS, 1 writer", lambda load=load: measure_http(load, 1, writes)),  # type: ignore[misc]
            ("HTTPS, 16 writers", lambda load=load: measure_http(load, 16, writes)),  # type: ignore[misc]
            ("in process, 1 writer", lambda load=load: measure_in_process(load, writes)),  # type: ignore[misc]
        ]
        for name, run in rows:
            shown = median(run, times)
            print(
                f"{f'{load}: {name}':48}{shown.writes_per_second:>10,.0f}{shown.p50:>9.2f}{shown.p99:>9.2f}"
                f"{shown.server:>9.0f}{shown.client:>9.0f}"
            )


def _named(hostname: str) -> dict[str, str]:
    return {"hostname": hostname} if hostname else {}


def _put(where: Where, load: Load, name: str) -> bytes:
    """Return a request template with a placeholder for every stamp."""
    body = orjson.dumps(load.body(name, STAMP.decode()))
    return where.request("PUT", f"{load.path}/{name}", body)


def _figures(per_second: float, latencies: list[float], server: float, client_cpu: float) -> Figures:
    centiles = statistics.quantiles(latencies, n=100)
    return Figures(per_second, centiles[49] * 1e3, centiles[98] * 1e3, server * 1e6, client_cpu * 1e6)


if __name__ == "__main__":
    main()
