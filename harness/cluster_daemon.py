"""The process that keeps an embedded cluster running in the background, until it gets SIGTERM.

Everything that the cluster consists of belongs to this process, so that nothing is left when it ends, however it ends.
Started by `trafficdist cluster up` with a pipe, to which it says `ready`, or what went wrong.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from harness import manifests
from harness.backends.netns import NetnsBackend
from harness.cluster_state import READY, ClusterState, save, start_time
from harness.errors import HarnessError
from harness.netns import sandbox
from harness.topology import parse_topology
from harness.workloads import external_client, node_client

_STOP = {signal.SIGTERM, signal.SIGINT}


def main(arguments: Sequence[str]) -> int:
    """Boot, say so, wait, close. Arguments: name, folder, topology, families, descriptor of the pipe."""
    name, folder, topology, families, descriptor = arguments
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)  # before there are threads, so that none of them takes the signal
    with os.fdopen(int(descriptor), "w", encoding="utf-8") as pipe:
        backend = NetnsBackend(parse_topology(topology), families=tuple(families.split(",")))
        try:
            _boot(backend, name, Path(folder))
        except HarnessError as error:
            pipe.write(str(error))
            backend.close()
            return 1
        pipe.write(READY)
    signal.sigwait(_STOP)
    backend.close()
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _boot(backend: NetnsBackend, name: str, folder: Path) -> None:
    outside = Path("/proc/self/ns/user").stat().st_ino
    backend.start()
    places = {node.name: backend.namespace_of(node_client(node.name)).proc_path for node in backend.topology.nodes}
    first = backend.topology.nodes[0].name
    places["external"] = backend.namespace_of(external_client(first)).proc_path
    service = _run_something(backend, places)
    own = Path("/proc/self/ns/user").stat().st_ino != outside
    kubeconfig = _reachable(backend) if own else backend.kubeconfig()
    private = os.open(folder / "kubeconfig", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(private, "w", encoding="utf-8") as file:
        yaml.safe_dump(kubeconfig, file)
    save(
        folder,
        ClusterState(
            name=name,
            pid=os.getpid(),
            start_time=start_time(os.getpid()),
            topology=backend.topology.name,
            zones={node.name: node.zone for node in backend.topology.nodes},
            places=places,
            user_namespace=f"/proc/{os.getpid()}/ns/user" if own else "",
            service=service,
        ),
    )


def _reachable(backend: NetnsBackend) -> dict[str, Any]:
    """Serve on the machine's loopback too, which this process has left; the kubeconfig for there."""
    listening = sandbox.outside_socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    backend.control_plane.listen(listening)
    kubeconfig = backend.kubeconfig()
    kubeconfig["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{listening.getsockname()[1]}"
    return kubeconfig


def _run_something(backend: NetnsBackend, places: dict[str, str]) -> dict[str, Any]:
    """A pod on each node, and a Service that prefers the zone, so that there is something to look at."""
    for node in backend.topology.nodes:
        pod = backend.run_pod("default", f"web-{node.name}", node.name, labels={"app": "web"})
        places[pod.name] = backend.namespace_of(pod).proc_path
    wanted = manifests.service(
        "web",
        ports=(manifests.TCP,),
        selector={"app": "web"},
        trafficDistribution="PreferSameZone",
    )
    made = backend.api.create("services", "default", wanted)
    backend.settle()
    return {"name": "web", "clusterIP": made["spec"]["clusterIP"], "port": made["spec"]["ports"][0]["port"]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
