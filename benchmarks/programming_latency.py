"""The delay from a written change to the first packet: the reference and kube-proxy in the same run.

    python benchmarks/programming_latency.py [--quick] [--plot docs/programming-latency.svg]

Each implementation has a cluster of one node. All clusters run at the same time and are measured in turns, so that each
round compares them under the same load. A cluster has a given number of Services with one endpoint that do not change,
and one Service that does. A change is timed from the start of the write (HTTPS, one EndpointSlice) until the new
endpoint answers a new connection from a pod. kube-proxy runs with a minSyncPeriod of 1 ms. With its default of 1 s, the
result would mainly reflect that second.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pygal

from harness.backends.backend import WantedPod
from harness.backends.implementation import Implementation, reference
from harness.backends.netns import NetnsBackend
from harness.binaries import find_entry
from harness.control_planes.control_plane import ControlPlane
from harness.errors import UnavailableError
from harness.model import manifests
from harness.model.outcomes import Reached
from harness.model.topology import grid
from harness.model.workloads import Pod, pod_client
from harness.netns import sandbox
from harness.probes.loop import Probe
from harness.proxies.kube_proxy import KubeProxy, require

ONE_NODE = grid("one_node", {"a": 1})
ROUNDS = {1: 200, 100: 200, 1_000: 100, 10_000: 40}
"""The number of rounds by the number of Services. With more Services, a round of kube-proxy takes longer."""
GIVE_UP = 60.0  # seconds


def main() -> None:
    """Measure, print and draw the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and Services")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw medians over the number of Services as SVG")
    options = parser.parse_args()
    sandbox.enter()
    found: dict[str, dict[int, list[float]]] = {}
    for size, rounds in {1: 20, 100: 20, 1_000: 20}.items() if options.quick else ROUNDS.items():
        for name, delays in measure(size, rounds=rounds).items():
            found.setdefault(name, {})[size] = sorted(delays)
            print(f"{size:6} Services, {name:19} {describe(sorted(delays))}, {rounds} rounds", flush=True)
        for name in sorted(found.keys() - {"reference"}):
            ratio = statistics.median(found[name][size]) / statistics.median(found["reference"][size])
            print(f"{size:6} Services, {name:19} {ratio:.1f} times the reference", flush=True)
    if options.plot:
        draw(options.plot, found)


def implementations() -> Iterator[tuple[str, Implementation]]:
    """Return all implementations that this machine can run. kube-proxy has the latest version in the cache."""
    yield "reference", reference()
    for mode in ("nftables", "iptables"):
        try:
            require(mode, find_entry("kube-proxy").version)
        except UnavailableError as error:
            print(f"kube-proxy {mode} is skipped: {error}")
        else:
            yield f"kube-proxy {mode}", dataclasses.replace(reference(), proxy=functools.partial(kube_proxy, mode))


def kube_proxy(mode: str, plane: ControlPlane, pod_cidrs: Sequence[str]) -> KubeProxy:
    """kube-proxy in one of its modes."""
    return KubeProxy(plane, pod_cidrs=pod_cidrs, mode=mode)


def measure(services: int, *, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each round, by implementation."""
    with ExitStack() as stack:
        subjects = {
            name: Subject(
                stack.enter_context(NetnsBackend(ONE_NODE, implementation=each, families=("IPv4",))), services
            )
            for name, each in implementations()
        }
        delays: dict[str, list[float]] = {name: [] for name in subjects}
        for number in range(rounds):
            for name, subject in subjects.items():
                delays[name].append(subject.change(number))
    return delays


class Subject:
    """Start a cluster of one node, with Services that do not change and one Service that changes."""

    def __init__(self, backend: NetnsBackend, services: int) -> None:
        self._backend = backend
        self._api = backend.api
        self._api.create("namespaces", "", {"metadata": {"name": "bench"}})
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(self._stand_by, range(services - 1)))
        made = self._api.create("services", "bench", manifests.service("web"))
        self._pods = backend.run_pods("bench", [WantedPod(name, "a1") for name in ("first", "second")])
        self._api.create("endpointslices", "bench", written(self._pods[1]))
        client = backend.namespace_of(pod_client("a1"))
        self._probe = Probe(client, "TCP", made["spec"]["clusterIP"], 80, 0.9)
        self._wait_for(self._pods[1], time.perf_counter())

    def change(self, number: int) -> float:
        """Return the seconds until a change takes effect."""
        pod = self._pods[number % 2]
        begin = time.perf_counter()
        self._api.replace("endpointslices", "bench", written(pod))
        return self._wait_for(pod, begin)

    def _stand_by(self, number: int) -> None:
        name = f"other-{number}"
        self._api.create("services", "bench", manifests.service(name))
        endpoint = manifests.Endpoint(self._backend.free_addresses(), node="a1", zone="a")
        self._api.create("endpointslices", "bench", manifests.endpoint_slice(f"{name}-1", name, [endpoint]))

    def _wait_for(self, pod: Pod, begin: float) -> float:
        while True:
            (seen,) = self._backend.probe([self._probe])
            now = time.perf_counter() - begin
            if isinstance(seen, Reached) and seen.pod == f"bench/{pod.name}":
                return now
            if now > GIVE_UP:
                raise SystemExit(f"after {GIVE_UP:g} s the client still gets no answer from {pod}: {seen}")


def written(pod: Pod) -> manifests.Object:
    """Return the slice with this pod as its only endpoint."""
    return manifests.endpoint_slice("web-1", "web", [manifests.Endpoint(pod.addresses, node=pod.node, zone=pod.zone)])


def describe(delays: Sequence[float]) -> str:
    """Return the median and the 99th percentile of sorted seconds."""
    p50, p99 = (delays[min(len(delays) - 1, int(len(delays) * share))] * 1e3 for share in (0.5, 0.99))
    return f"p50 {p50:7.1f} ms, p99 {p99:7.1f} ms"


def draw(path: Path, found: Mapping[str, Mapping[int, Sequence[float]]]) -> None:
    """Draw the median and p99 over the number of Services. Both axes are logarithmic."""
    chart = pygal.XY(
        title="Write to the API until the first packet at the new endpoint",
        x_title="Services (10^x)",
        y_title="ms",
        logarithmic=True,
        style=pygal.style.CleanStyle,
        js=(),
    )
    for name, (label, share) in itertools.product(found, (("p50", 0.5), ("p99", 0.99))):
        points = [
            (math.log10(size), round(each[min(len(each) - 1, int(len(each) * share))] * 1e3, 2))
            for size, each in sorted(found[name].items())
        ]
        chart.add(f"{name}, {label}", points)
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.render_to_file(str(path))


if __name__ == "__main__":
    main()
