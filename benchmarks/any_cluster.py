"""The cost of a run through the Kubernetes API: client pods, their probes, and the time of a run on a real cluster.

    python benchmarks/any_cluster.py [--quick]

The benchmark uses the embedded cluster only through its kubeconfig, like any other cluster. The kubelet, the API server
and this client share the CPUs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from emulator.kubelet.images import REGISTRY
from emulator.kubelet.kubelet import Kubelet
from harness.api.client import Api, Object
from harness.backends.any_cluster.target import ALWAYS, ClusterTarget, match_nodes
from harness.backends.backend import WantedPod
from harness.backends.kubeconfig import KubeconfigBackend
from harness.backends.netns import NetnsBackend
from harness.model import manifests
from harness.model.manifests import Endpoint
from harness.model.outcomes import Reached
from harness.model.topology import THREE_ZONES
from harness.model.workloads import pod_client
from harness.netns import sandbox
from harness.probes.loop import Probe

RUN_ID = "benchmrk"
NAMESPACE = f"td-{RUN_ID}-main-1"


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 15
    sandbox.enter()
    with share() as backend:
        backend.create_namespace(NAMESPACE)
        one = [made(backend, 1, number) for number in range(rounds)]
        twenty = [made(backend, 20, number) for number in range(rounds)]
        print(f"1 pod created and ready: median {statistics.median(one):.2f} s ({min(one):.2f}-{max(one):.2f} s)")
        print(f"20 pods on 5 nodes, created together: median {statistics.median(twenty):.2f} s", end="")
        print(f" ({min(twenty):.2f}-{max(twenty):.2f} s)")
        service = with_a_server(backend)
        rates = [probes_per_second(backend, service) for _ in range(rounds)]
        print(f"probes of one client pod to a cluster IP: median {statistics.median(rates):.0f}/s", end="")
        print(f" ({min(rates):.0f}-{max(rates):.0f}/s)")
        settled = [barrier(backend) for _ in range(rounds)]
        print(f"all proxies have a change, by the barrier: median {statistics.median(settled) * 1e3:.0f} ms")
        backend.delete_namespace(NAMESPACE)


@contextmanager
def share() -> Iterator[KubeconfigBackend]:
    """The part of an embedded cluster that one worker uses."""
    with ExitStack() as stack:
        booted = stack.enter_context(NetnsBackend())
        stack.enter_context(Kubelet(booted.kubeconfig(), booted.network, trust=booted.control_plane.kubelets))
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "kubeconfig"
        file.write_text(yaml.safe_dump(booted.kubeconfig()), encoding="utf-8")
        api = Api(booted.kubeconfig())
        stack.callback(api.close)
        names = match_nodes(THREE_ZONES, api.list("nodes"))
        target = ClusterTarget(str(file), "", RUN_ID, names, THREE_ZONES, ALWAYS, REGISTRY)
        backend = KubeconfigBackend(target, target.plain_api()).start()
        stack.callback(backend.close)
        yield backend


def made(backend: KubeconfigBackend, count: int, number: int) -> float:
    """Return the seconds until this number of pods is ready."""
    nodes = [node.name for node in THREE_ZONES.nodes]
    wanted = [WantedPod(f"p-{count}-{number}-{each}", nodes[each % len(nodes)]) for each in range(count)]
    begin = time.perf_counter()
    backend.run_pods(NAMESPACE, wanted)
    return time.perf_counter() - begin


def probes_per_second(backend: KubeconfigBackend, service: Object, count: int = 1000) -> float:
    """Return the probes per second of one client to a cluster IP."""
    probe = Probe(backend.source_of(pod_client("a1")), "TCP", service["spec"]["clusterIP"], 80, 0.9)
    begin = time.perf_counter()
    seen = backend.probe([probe] * count)
    assert all(isinstance(each, Reached) for each in seen), seen[0]
    return count / (time.perf_counter() - begin)


def with_a_server(backend: KubeconfigBackend) -> Object:
    """Create a Service with one endpoint, and wait until all proxies have it."""
    (pod,) = backend.run_pods(NAMESPACE, [WantedPod("server", "b1")])
    service = backend.api.create("services", NAMESPACE, manifests.service("bench"))
    written = manifests.endpoint_slice("bench", "bench", [Endpoint(pod.addresses)])
    backend.api.create("endpointslices", NAMESPACE, written)
    backend.settle()
    return service


def barrier(backend: KubeconfigBackend) -> float:
    """Return the seconds from a change until clients on all nodes observe it."""
    backend.api.delete("services", NAMESPACE, "web")
    backend.api.create("services", NAMESPACE, manifests.service("web"))
    begin = time.perf_counter()
    backend.settle()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
