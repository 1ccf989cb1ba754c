"""The cost of hints by CPU (KEP-2433): for one large Service, for many Services on a node event, and with growing size.

    python benchmarks/cpu_hints.py [--quick] [--plot docs/cpu-hints.svg]

A reconcile is the complete plan of one Service from its pods, without writes: first as after a restart, then after a
change of one pod. A node event is timed from the update of a Node until the controller has processed every Service
whose hints could change and has written its slices, in one process with the API server. Memory is the peak of the
process.

Growth is measured with and without Python's garbage collector. The collector repeatedly traverses the objects that a
reconcile has created. The larger the Service, the more time this adds, so the otherwise straight line becomes a curve.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import time
from pathlib import Path

import pygal

from reference.apiserver import ApiServer
from reference.client import Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.endpoints import EndpointCache
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.endpointslice.zones import ZoneTable
from reference.features import Features

FEATURES = Features()
AUTO = {"service.kubernetes.io/topology-mode": "Auto"}
SIZES = (500, 1000, 2000, 4000, 7000, 10000)


def main() -> None:
    """Measure, print and draw the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and Services")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw growth with the endpoints as SVG")
    options = parser.parse_args()
    rounds = 1 if options.quick else 5
    nodes = nodes_of(5000, zones=10)
    times = {size: [reconcile(nodes, size) for _ in range(rounds)] for size in SIZES}
    for size, runs in times.items():
        whole, again = (statistics.median(each) * 1e3 for each in zip(*runs, strict=True))
        print(f"{size:6} endpoints, 5,000 nodes, 10 zones: all {whole:6.0f} ms, one pod changed {again:6.0f} ms")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    if options.plot:
        alone = {size: [reconcile(nodes, size, collector=False) for _ in range(rounds)] for size in SIZES}
        draw(options.plot, medians(times), medians(alone))
    services = 100 if options.quick else 1000
    seconds, written = node_event(services=services, endpoints=100)
    print(f"node event, {services} Services of 100 endpoints: {seconds:.2f} s, {written} slices written")


def medians(times: dict[int, list[tuple[float, float]]]) -> dict[int, list[float]]:
    """Return the seconds of a first plan and of a later plan, by number of endpoints."""
    return {size: [statistics.median(each) for each in zip(*runs, strict=True)] for size, runs in times.items()}


def nodes_of(count: int, *, zones: int) -> dict[str, Object]:
    """Return nodes that are spread evenly over zones. Their CPUs differ slightly from zone to zone."""
    return {f"n{number}": node(number, 4000 + 100 * (number % zones), f"z{number % zones}") for number in range(count)}


def node(number: int, cpu_milli: int, zone: str) -> Object:
    """A ready node."""
    return {
        "metadata": {"name": f"n{number}", "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": f"{cpu_milli}m"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def service(name: str) -> Object:
    """Return a Service with the topology annotation."""
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {"metadata": {"name": name, "namespace": "default", "uid": name, "annotations": AUTO}, "spec": spec}


def pods_of(name: str, count: int, nodes: int) -> list[Object]:
    """Return ready pods, one per node. If there are more pods than nodes, continue with the first node."""
    return [pod(name, number, number % nodes) for number in range(count)]


def pod(name: str, number: int, node_number: int) -> Object:
    """Return a ready pod with a unique address."""
    address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    return {
        "metadata": {
            "name": f"{name}-{number}",
            "namespace": "default",
            "uid": f"{name}-{number}",
            "labels": {"app": name},
        },
        "spec": {"nodeName": f"n{node_number}", "containers": [{"name": "web", "image": "web"}]},
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def reconcile(nodes: dict[str, Object], endpoints: int, *, collector: bool = True) -> tuple[float, float]:
    """Return the seconds of the first plan, and of the plan after one pod has moved to a node in another zone."""
    wanted = {**service("web"), "spec": {**service("web")["spec"], "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"]}}
    zones, memo, pods = ZoneTable(FEATURES, nodes), EndpointCache(), pods_of("web", endpoints, len(nodes))
    gc.collect()
    gc.freeze()  # objects of the cluster are old in a controller that has run for a while
    if not collector:
        gc.disable()
    begin = time.perf_counter()
    first = plan_service(wanted, pods, nodes, [], features=FEATURES, memo=memo, zones=zones)
    middle = time.perf_counter()
    pods[0] = pod("web", 0, 1)
    restarted = time.perf_counter()
    plan_service(wanted, pods, nodes, stored(first), features=FEATURES, memo=memo, zones=zones)
    end = time.perf_counter()
    gc.enable()
    return middle - begin, end - restarted


def stored(plan: SlicePlan) -> list[Object]:
    """Return the slices of a plan in the form that an API server would return."""
    return [
        {**each, "metadata": {**each["metadata"], "name": f"web-{number}", "resourceVersion": "1"}}
        for number, each in enumerate(plan.create)
    ]


def node_event(*, services: int, endpoints: int) -> tuple[float, int]:
    """Return the seconds from a node's zone change until the controller is idle, and the number of writes."""
    api = ApiServer()
    for number in range(12):
        api.update_status("nodes", "", {**api.create("nodes", "", node(number, 4000, f"z{number % 3}")), **_status()})
    for number in range(services):
        name = f"s{number}"
        api.create("services", "default", service(name))
        for each in pods_of(name, endpoints, 12):
            api.update_status("pods", "default", {**api.create("pods", "default", each), "status": each["status"]})
    controller = EndpointSliceController(api)
    controller.start()
    wait(controller)
    before = versions(api)
    begin = time.perf_counter()
    for number in (0, 3, 6):  # zone z0 loses three of its four nodes
        found = api.get("nodes", "", f"n{number}")
        labels = {"topology.kubernetes.io/zone": "z1"}
        api.update("nodes", "", {**found, "metadata": {**found["metadata"], "labels": labels}})
    wait(controller)
    seconds = time.perf_counter() - begin
    controller.stop()
    after = versions(api)
    return seconds, sum(before.get(name) != version for name, version in after.items())


def _status() -> Object:
    return {"status": node(0, 4000, "")["status"]}


def versions(api: ApiServer) -> dict[str, int]:
    """Return the resource version of each slice."""
    return {each.object["metadata"]["name"]: each.revision for each in api.registry.store.items("endpointslices")}


def wait(controller: EndpointSliceController) -> None:
    """Wait until the controller has processed all events."""
    deadline = time.monotonic() + 600
    while not controller.synced():
        if time.monotonic() > deadline:
            raise SystemExit("after 600 s the controller is not idle")
        time.sleep(0.001)


def draw(path: Path, times: dict[int, list[float]], alone: dict[int, list[float]]) -> None:
    """Draw milliseconds over endpoints, with a straight line for comparison."""
    chart = pygal.XY(
        title="One reconcile with 5,000 nodes in 10 zones (median)",
        x_title="endpoints of the Service",
        y_title="ms",
        style=pygal.style.CleanStyle,
        js=(),
    )
    for what, by_size in (("", times), (", no collector", alone)):
        for name, index in (("after a restart", 0), ("one pod changed", 1)):
            points = [(size, round(each[index] * 1e3, 1)) for size, each in sorted(by_size.items())]
            chart.add(f"{name}{what}", points)
    largest = max(alone)
    chart.add(
        "linear",
        [(0, 0), (largest, round(alone[largest][0] * 1e3, 1))],
        show_dots=False,
        stroke_style={"dasharray": "4, 4"},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.render_to_file(str(path))


if __name__ == "__main__":
    main()
