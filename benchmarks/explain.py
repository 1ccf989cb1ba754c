"""The time and memory that `trafficdist explain --all` needs for a large recorded cluster.

The cluster has 5,000 Services that request their zone or node, with 20 endpoints each, on 1,000 nodes in three zones.
Every tenth Service has no endpoint in one zone, and every hundredth Service has an endpoint on the only node without a
zone. The recording also contains the 100,000 pods, with the fields that recordings keep.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
ZONE = "topology.kubernetes.io/zone"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=5_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), chosen.services, chosen.nodes)
        begin = time.monotonic()
        trafficdist = Path(sys.executable).with_name("trafficdist")
        command = [str(trafficdist), "explain", "--all", "--from", folder, "--format=json"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        seconds = time.monotonic() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    wanting = json.loads(answer.stdout)["wanting"]
    print(f"{chosen.services:,} Services on {chosen.nodes:,} nodes, {wanting} of them with unmet requests:")
    print(f"{seconds:.1f} s, {cpu:.1f} s of CPU time, {memory:.0f} MB")


def _write(folder: Path, services: int, nodes: int) -> None:
    zones = {f"node-{number}": "abc"[number % 3] for number in range(nodes)}
    names = list(zones)
    items = {
        "nodes": [_node(name, zone) for name, zone in zones.items()] + [_node("lost", "")],
        "services": [_service(number) for number in range(services)],
        "endpointslices": [_slice(number, names, zones) for number in range(services)],
        "pods": [_pod(number, each, names) for number in range(services) for each in range(20)],
    }
    for name, each in items.items():
        (folder / f"{name}.json").write_text(json.dumps({"items": each}))


def _node(name: str, zone: str) -> dict[str, object]:
    status = {
        "allocatable": {"cpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.36.1"},
    }
    return {"metadata": {"name": name, "labels": {ZONE: zone} if zone else {}}, "status": status}


def _service(number: int) -> dict[str, object]:
    address = f"10.96.{number // 250}.{1 + number % 250}"
    spec = {
        "clusterIP": address,
        "clusterIPs": [address],
        "ipFamilies": ["IPv4"],
        "ports": [{"port": 80, "protocol": "TCP"}],
        "selector": {"app": f"web-{number}"},
        "trafficDistribution": "PreferSameZone" if number % 2 else "PreferSameNode",
    }
    return {"metadata": {"name": f"web-{number}", "namespace": f"team-{number % 50}"}, "spec": spec}


def _slice(number: int, names: list[str], zones: dict[str, str]) -> dict[str, object]:
    chosen = [names[(number * 7 + each) % len(names)] for each in range(20)]
    if number % 10 == 0:
        chosen = [each for each in chosen if zones[each] != "c"]
    if number % 100 == 0:
        chosen[0] = "lost"
    labels = {
        "kubernetes.io/service-name": f"web-{number}",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    return {
        "metadata": {"name": f"web-{number}-1", "namespace": f"team-{number % 50}", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
        "endpoints": [_endpoint(number, each, name, zones.get(name, "")) for each, name in enumerate(chosen)],
    }


def _pod(number: int, index: int, names: list[str]) -> dict[str, object]:
    """Return a pod in the form that `explain --record` writes."""
    hashed = f"{number:08x}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{number}-{hashed}", "uid": f"uid-{number}"}
    return {
        "metadata": {
            "name": f"web-{number}-{hashed}-{index}",
            "namespace": f"team-{number % 50}",
            "labels": {"app": f"web-{number}", "pod-template-hash": hashed},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": names[(number * 7 + index) % len(names)],
            "containers": [{"name": "web", "image": "registry.example.com/shop/web:1.2.3"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": each, "status": "True", "lastTransitionTime": "2026-11-22T10:00:00Z"} for each in CONDITIONS
            ],
        },
    }


def _endpoint(number: int, index: int, name: str, zone: str) -> dict[str, object]:
    hints: dict[str, object] = {"forZones": [{"name": zone}]}
    if not number % 2:
        hints["forNodes"] = [{"name": name}]
    found: dict[str, object] = {
        "addresses": [f"10.{number % 200}.{number // 200}.{index + 1}"],
        "conditions": {"ready": True},
        "nodeName": name,
    }
    return {**found, "zone": zone, "hints": hints} if zone else found


if __name__ == "__main__":
    main()
