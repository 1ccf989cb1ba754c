"""The time to replace a component of the embedded cluster with one of another release.

    python benchmarks/restart.py [--quick]

The cluster has 6 nodes, and 100 Services with a selector and 3 pods each, all with PreferClose. A restart is timed from
the call until the new component is ready: the API server answers over HTTPS, the controller has synced every Service,
or the proxy has its rules in the kernel. No hint changes between 1.33 and 1.34, so only the restart is timed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

from harness.backends.netns import NetnsBackend
from harness.model import manifests
from harness.model.release import API_SERVER, CONTROLLER, PROXY, Component, Release, release
from harness.model.topology import grid
from harness.netns import sandbox

TOPOLOGY = grid("three_by_two", {"a": 2, "b": 2, "c": 2})
RELEASES = release("1.33"), release("1.34")


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 4 if parser.parse_args().quick else 40
    sandbox.enter()
    with NetnsBackend(TOPOLOGY) as backend:
        fill(backend, services=100)
        for component, nodes in ((API_SERVER, []), (CONTROLLER, []), (PROXY, ["a1"])):
            times = [restart(backend, component, nodes, RELEASES[number % 2]) * 1e3 for number in range(rounds)]
            spread = f"{min(times):.0f}-{max(times):.0f} ms"
            print(f"restart of the {component} {''.join(nodes)}: median {statistics.median(times):.0f} ms ({spread})")


def restart(backend: NetnsBackend, component: Component, nodes: Sequence[str], wanted: Release) -> float:
    """Return the seconds until the component has been replaced and is ready."""
    begin = time.perf_counter()
    backend.start_component(component, wanted, nodes)
    return time.perf_counter() - begin


def fill(backend: NetnsBackend, *, services: int) -> None:
    """Create Services with pods that exist only in the API."""
    api = backend.api
    api.create("namespaces", "", {"metadata": {"name": "bench"}})
    for number in range(services):
        name = f"web-{number}"
        labels = {"app": name}
        api.create("services", "bench", manifests.service(name, selector=labels, trafficDistribution="PreferClose"))
        for node in ("a1", "b1", "c1"):
            api.create("pods", "bench", manifests.pod(f"{name}-{node}", node, labels=labels))
            status = manifests.pod_status(backend.free_addresses(), "10.0.0.1", ready=True)
            api.patch("pods", "bench", f"{name}-{node}", {"status": status}, subresource="status")
    backend.settle()


if __name__ == "__main__":
    main()
