"""The cost of rules: loading all rules, and changing one endpoint with many Services.

    python benchmarks/proxy_rules.py [--quick | --full]

For the reference, the time covers everything from the watch event to the kernel (read, decide, compare, pack, commit),
on one node in a separate netns. For comparison, another netns runs `nft -f` with rules like those of kube-proxy (a
chain for each Service and endpoint); the time to generate its input is not included. The comparison is skipped if there
is no `nft`.

--full also measures rules like those of kube-proxy with 10,000 Services, which takes more than a minute.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from harness.netns import sandbox
from harness.netns.namespace import Namespace
from reference.client import Event, Object
from reference.proxy import ServiceProxy

ENDPOINTS = 10
MOST_CHANGE_MS, MOST_GROWTH, MOST_LOAD_S = 0.2, 3.0, 2.0
CHUNK = 500  # Services per transaction: the kernel needs quadratic time for one with all of them


class Figures(NamedTuple):
    """The results of a full load (seconds, and CPU seconds) and of a change (milliseconds in the proxy's thread,
    and until another thread is informed).
    """

    load: float
    cpu: float
    change: float
    known: float


class Feed:
    """An API client that delivers these events, and later events as they are given."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events
        self.send: Callable[[Event], None] = print

    def subscribe(self, _resources: object, sink: Callable[[Event], None]) -> Feed:
        self.send = sink
        for event in [*self._events, Event("SYNCED", "", {})]:
            sink(event)
        return self

    def close(self) -> None:
        """Do nothing."""


def cluster_ip(number: int) -> str:
    """Return the cluster IP of a Service."""
    return f"10.96.{number >> 8}.{number & 255}"


def endpoint_ip(number: int) -> str:
    """Return the address of an endpoint. Each Service has ENDPOINTS consecutive addresses."""
    return f"10.{128 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def service(number: int) -> Object:
    """A plain Service."""
    spec = {"clusterIP": cluster_ip(number), "ports": [{"port": 80, "protocol": "TCP"}]}
    return {"metadata": {"namespace": "default", "name": f"web-{number}"}, "spec": spec}


def slice_of(number: int, addresses: Iterable[str]) -> Object:
    """Return the EndpointSlice of a Service, with hints. One endpoint in six is on the proxy's node."""
    endpoints = [
        {
            "addresses": [address],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": f"a{1 + index % 6}",
            "zone": "a",
            "hints": {"forZones": [{"name": "a"}]},
        }
        for index, address in enumerate(addresses, number)
    ]
    labels = {"kubernetes.io/service-name": f"web-{number}"}
    return {
        "metadata": {"namespace": "default", "name": f"web-{number}-x", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints,
    }


def addresses_of(number: int) -> list[str]:
    """Return the addresses of a Service's endpoints."""
    return [endpoint_ip(number * ENDPOINTS + index) for index in range(ENDPOINTS)]


def objects(count: int) -> list[Event]:
    """Return events for a node and this number of Services."""
    labels = {"topology.kubernetes.io/zone": "a"}
    node = {"metadata": {"name": "a1", "labels": labels}, "spec": {"podCIDRs": ["10.244.1.0/24"]}}
    events = [Event("ADDED", "nodes", node)]
    for number in range(count):
        events.append(Event("ADDED", "services", service(number)))
        events.append(Event("ADDED", "endpointslices", slice_of(number, addresses_of(number))))
    return events


@contextmanager
def proxy_with(count: int) -> Iterator[tuple[ServiceProxy, Feed, float, float]]:
    """Return a proxy that has loaded this number of Services, its event source, seconds and CPU seconds."""
    feed = Feed(objects(count))
    gc.collect()
    gc.freeze()  # the measurement excludes the cluster's objects
    with Namespace.create() as node:
        with node.entered():
            proxy = ServiceProxy("a1", feed, pod_cidrs=["10.244.0.0/16"])  # type: ignore[arg-type]
        begin, begin_processor = time.perf_counter(), time.process_time()
        proxy.start()
        wait_for(proxy, 0.002)
        yield proxy, feed, time.perf_counter() - begin, time.process_time() - begin_processor
        proxy.stop()
    gc.unfreeze()


def wait_for(proxy: ServiceProxy, pause: float = 0) -> None:
    """Wait until all changes are in the kernel."""
    while not proxy.synced():
        time.sleep(pause)
    assert proxy.last_error is None, proxy.last_error


def changes(count: int, rounds: int) -> Iterator[Event]:
    """Replace, remove and add one endpoint of a Service in the middle, in turn."""
    number = count // 2
    fixed = addresses_of(number)[1:]
    for turn in range(rounds):
        fresh = [f"10.250.0.{turn % 200 + 1}"] if turn % 3 < 2 else []
        yield Event("MODIFIED", "endpointslices", slice_of(number, [*fixed, *fresh]))


def ours(count: int, rounds: int) -> Figures:
    """Measure the reference's rules with this number of Services."""
    with proxy_with(count) as (proxy, feed, load, cpu):
        until_known = []
        for event in changes(count, rounds):
            begin = time.perf_counter()
            feed.send(event)
            wait_for(proxy)
            until_known.append(time.perf_counter() - begin)
        in_thread = []
        for event in changes(count, rounds):  # its thread is idle; these are the steps that it would perform
            begin = time.perf_counter()
            proxy._receive(event)
            proxy._write()
            in_thread.append(time.perf_counter() - begin)
        return Figures(load, cpu, statistics.median(in_thread) * 1e3, statistics.median(until_known) * 1e3)


def shaped_like_kube_proxy(numbers: Iterable[int]) -> Iterator[str]:
    """Return the chains of Services and endpoints, and their elements in the common map."""
    for number in numbers:
        for index, address in enumerate(addresses_of(number)):
            yield from endpoint_chain(f"ep-{number}-{index}", address)
        yield f"add chain ip kube svc-{number}"
        yield service_rule(number, range(ENDPOINTS))


def endpoint_chain(name: str, address: str) -> Iterator[str]:
    """One endpoint."""
    yield f"add chain ip kube {name}"
    yield f"add rule ip kube {name} ip saddr {address} meta mark set 0x4000"
    yield f"add rule ip kube {name} meta l4proto tcp dnat to {address}:8080"


def service_rule(number: int, indexes: Iterable[int]) -> str:
    """Return the rule that selects an endpoint."""
    goals = ", ".join(f"{turn} : goto ep-{number}-{index}" for turn, index in enumerate(indexes))
    return f"add rule ip kube svc-{number} numgen random mod {ENDPOINTS} vmap {{ {goals} }}"


def nft(node: Namespace, lines: Iterable[str]) -> float:
    """Return the seconds that `nft -f` takes."""
    with node.entered():
        begin = time.perf_counter()
        subprocess.run(["nft", "-f", "-"], input="\n".join(lines), text=True, check=True)
        return time.perf_counter() - begin


def theirs(count: int, rounds: int) -> tuple[float, float]:
    """Return the seconds of a full load of kube-proxy's rules, and the milliseconds to replace one endpoint in them."""
    base = [
        "add table ip kube",
        "add map ip kube service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }",
        "add chain ip kube services { type nat hook prerouting priority dstnat; }",
        "add rule ip kube services ip daddr . meta l4proto . th dport vmap @service-ips",
    ]
    hooked_up = ", ".join(f"{cluster_ip(each)} . tcp . 80 : goto svc-{each}" for each in range(count))
    with Namespace.create() as node:
        load = nft(node, base)
        for first in range(0, count, CHUNK):
            load += nft(node, shaped_like_kube_proxy(range(first, min(count, first + CHUNK))))
        load += nft(node, [f"add element ip kube service-ips {{ {hooked_up} }}"])
        times = [nft(node, replace_endpoint(count // 2, turn)) for turn in range(rounds)]
        return load, statistics.median(times) * 1e3


def replace_endpoint(number: int, turn: int) -> Iterator[str]:
    """Replace the last endpoint with a new endpoint in a new chain, and delete the old chain."""
    kept, old, new = range(ENDPOINTS - 1), ENDPOINTS - 1 + turn, ENDPOINTS + turn
    yield from endpoint_chain(f"ep-{number}-{new}", f"10.250.0.{turn % 200 + 1}")
    yield f"flush chain ip kube svc-{number}"
    yield service_rule(number, [*kept, new])
    yield f"delete chain ip kube ep-{number}-{old}"


def main() -> None:
    """Measure, print, and compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="at most 1,000 Services, fewer rounds")
    parser.add_argument("--full", action="store_true", help="also measure kube-proxy's rules with 10,000 Services")
    arguments = parser.parse_args()
    sandbox.enter()
    sizes, rounds = ([1, 1_000], 200) if arguments.quick else ([1, 1_000, 10_000], 1_000)
    if not shutil.which("nft"):
        print("skipped: nft -f (no `nft` here: install nftables)")
    print("Services      load         cpu     change      known   nft load   nft change  ratio of changes")
    found: dict[int, Figures] = {}
    for count in sizes:
        mine = found[count] = ours(count, rounds)
        line = f"{count:>8,}  {mine.load:>6.3f} s  {mine.cpu:>8.3f} s  {mine.change:>6.3f} ms  {mine.known:>6.3f} ms"
        if shutil.which("nft") and (count <= 1_000 or arguments.full):
            other_load, other_change = theirs(count, 5)
            line += f"  {other_load:>7.2f} s  {other_change:>7.1f} ms  {other_change / mine.change:,.0f}x"
        print(line, flush=True)
    judge(found)


def judge(found: dict[int, Figures]) -> None:
    """Return whether the project's limits were met."""
    most = max(found)
    load, change = found[most].load, found[most].change
    growth = change / found[1].change
    print(f"one change with {most:,} Services: {change:.3f} ms, at most {MOST_CHANGE_MS}")
    print(f"that is {growth:.2f} times one with a single Service, at most {MOST_GROWTH:.0f}")
    print(f"full load: {load:.2f} s, at most {MOST_LOAD_S:.0f}")
    if change > MOST_CHANGE_MS or growth > MOST_GROWTH or load > MOST_LOAD_S:
        raise SystemExit("not reached")


if __name__ == "__main__":
    main()
