"""The cost of the PodLocator controller: the initial sync of a large cluster, and the relabelling of a node.

    python benchmarks/pod_locator.py

The cluster has 10,000 pods on 1,000 nodes with 20 labels each, in one process with the API server. The time of the
initial sync is from the start of the controller until every locator is written. The time of a relabelling is from the
call until the locators of the node's pods (10, and 100 on one node) are written; the result has the median, the fastest
run and the 99th percentile.
"""

from __future__ import annotations

import copy
import statistics
import time

from reference.apiserver import ApiServer
from reference.client import Event, Object
from reference.pod_locator import PodLocatorController

NODES, PODS, FULL = 1000, 10_000, 100
RUNS = 100


def main() -> None:
    api = cluster()
    controller = PodLocatorController(api)
    begin = time.perf_counter()
    controller.start()
    wait(controller)
    seconds = time.perf_counter() - begin
    written = len(api.registry.store.keys("podlocators"))
    print(f"{written} pods on {NODES} nodes, caught up in       {seconds:8.2f} s  {written / seconds:10.0f} locators/s")
    second = PodLocatorController(api)
    begin = time.perf_counter()
    second.start()
    wait(second)
    print(f"the same with all existing locators         {time.perf_counter() - begin:8.2f} s")
    second.stop()
    print("node relabelled, ms                          fastest   median      p99   writes")
    for node, count in (("n1", PODS // NODES), ("full", FULL)):
        times, writes = relabels(api, controller, node)
        p99 = times[min(len(times) - 1, int(0.99 * len(times)))]
        print(f"  {count:4} pods {times[0]:40.1f} {statistics.median(times):8.1f} {p99:8.1f} {writes:8}")
    controller.stop()


def cluster() -> ApiServer:
    api = ApiServer()
    for name in [f"n{number}" for number in range(NODES - 1)] + ["full"]:
        api.create("nodes", "", node_of(name))
    for number in range(PODS):
        name = "full" if number < FULL else f"n{number % (NODES - 1)}"
        pod = api.create("pods", "default", pod_of(f"p{number}", name))
        ips = [{"ip": f"10.{number // 62500}.{number // 250 % 250}.{number % 250 + 1}"}]
        api.update_status("pods", "default", {**pod, "status": {"phase": "Running", "podIPs": ips}})
    return api


def relabels(api: ApiServer, controller: PodLocatorController, node: str) -> tuple[list[float], int]:
    """Return the milliseconds of all runs, sorted, and the number of writes in one run."""
    seen: list[Event] = []
    subscription = api.subscribe(["podlocators"], seen.append)
    seen.clear()
    times = []
    for run in range(RUNS):
        begin = time.perf_counter()
        changed = copy.deepcopy(api.get("nodes", "", node))
        changed["metadata"]["labels"]["rack"] = f"r{run}"
        api.update("nodes", "", changed)
        wait(controller)
        times.append(1000 * (time.perf_counter() - begin))
    subscription.close()
    return sorted(times), len(seen) // RUNS


def wait(controller: PodLocatorController) -> None:
    while not controller.synced():
        time.sleep(0.001)


def node_of(name: str) -> Object:
    labels = {f"example.org/label-{number}": f"value-{number}" for number in range(18)}
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "rack": "r", **labels}}}


def pod_of(name: str, node: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}}


if __name__ == "__main__":
    main()
