"""The embedded cluster as a whole: its boot time, and the delay from a written change to the first packet.

    python benchmarks/cluster.py [--quick]

The boot time includes 6 nodes with 5 pods each (netns, echo servers, API objects), the API server with TLS, the
controller, and the proxies with their rules in the kernel. A change is timed from the start of the write (HTTPS, one
EndpointSlice) until the new endpoint answers a new connection from a pod on each of the 6 nodes.
"""

from __future__ import annotations

import argparse
import statistics
import time

from harness.backends.backend import WantedPod
from harness.backends.netns import NetnsBackend
from harness.model import manifests
from harness.model.outcomes import Reached
from harness.model.topology import grid
from harness.model.workloads import Pod, pod_client
from harness.netns import sandbox
from harness.probes.loop import Probe

TOPOLOGY = grid("three_by_two", {"a": 2, "b": 2, "c": 2})
NODES = [node.name for node in TOPOLOGY.nodes]


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quick = parser.parse_args().quick
    sandbox.enter()
    boots = [boot() for _ in range(2 if quick else 7)]
    print(f"boot of 6 nodes with 5 pods each: median {statistics.median(boots) * 1e3:.0f} ms ({spread(boots, 1e3)} ms)")
    with NetnsBackend(TOPOLOGY) as backend:
        delays = changes(backend, rounds=20 if quick else 300)
    delays.sort()
    p50, p99 = (delays[int(len(delays) * share)] * 1e3 for share in (0.5, 0.99))
    print(f"write to first packet, 6 nodes: p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {delays[-1] * 1e3:.1f} ms")


def boot() -> float:
    """Return the seconds until a cluster with all its pods answers."""
    begin = time.perf_counter()
    with NetnsBackend(TOPOLOGY) as backend:
        backend.api.create("namespaces", "", {"metadata": {"name": "bench"}})
        backend.run_pods("bench", [WantedPod(f"{node}-{number}", node) for node in NODES for number in range(5)])
        backend.settle()
        return time.perf_counter() - begin


def changes(backend: NetnsBackend, *, rounds: int) -> list[float]:
    """Return the seconds from a write to the first packet, for each round and node."""
    api = backend.api
    api.create("namespaces", "", {"metadata": {"name": "bench"}})
    service = api.create("services", "bench", manifests.service("web"))
    pods = backend.run_pods("bench", [WantedPod("first", "a1"), WantedPod("second", "b1")])
    api.create("endpointslices", "bench", written(pods[0]))
    probes = [
        Probe(backend.namespace_of(pod_client(node)), "TCP", service["spec"]["clusterIP"], 80, 0.9) for node in NODES
    ]
    until_answered_by(backend, probes, pods[0], time.perf_counter())
    delays: list[float] = []
    for number in range(1, rounds + 1):
        begin = time.perf_counter()
        api.replace("endpointslices", "bench", written(pods[number % 2]))
        delays += until_answered_by(backend, probes, pods[number % 2], begin)
    return delays


def written(pod: Pod) -> manifests.Object:
    """Return the slice with this pod as its only endpoint."""
    endpoint = manifests.Endpoint(pod.addresses, node=pod.node, zone=pod.zone)
    return manifests.endpoint_slice("web-1", "web", [endpoint])


def until_answered_by(backend: NetnsBackend, probes: list[Probe], pod: Pod, begin: float) -> list[float]:
    """Return the seconds after `begin` at which the pod answered each client for the first time."""
    waiting, delays = list(probes), []
    while waiting:
        seen = backend.probe(waiting, in_flight=len(waiting))
        now = time.perf_counter() - begin
        if now > 10:
            raise SystemExit(f"after 10 s {len(waiting)} clients still get no answer from {pod}: {seen}")
        there = [isinstance(each, Reached) and each.pod == f"bench/{pod.name}" for each in seen]
        delays += [now for each in there if each]
        waiting = [probe for probe, each in zip(waiting, there, strict=True) if not each]
    return delays


def spread(values: list[float], factor: float) -> str:
    """Return the smallest and the largest value."""
    return f"{min(values) * factor:.0f}-{max(values) * factor:.0f}"


if __name__ == "__main__":
    main()
