"""The cost of the EndpointSlice controller: from a pod change to the slice write, and of one sync by Service size.

    python benchmarks/endpointslice_controller.py

The latency is measured from the call that changes a pod's readiness to the watch event of the slice, in one process
with the API server, so it includes both writes. A sync is measured in CPU time. Every result has the median, the
fastest run and the 99th percentile.
"""

from __future__ import annotations

import statistics
import time
from queue import SimpleQueue

import orjson

from reference.apiserver import ApiServer
from reference.client import Event, Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.endpoints import EndpointCache
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.features import Features

RUNS = 300
NODES = {
    f"n{number}": {"metadata": {"name": f"n{number}", "labels": {"topology.kubernetes.io/zone": f"z{number % 3}"}}}
    for number in range(9)
}


def main() -> None:
    print("pod readiness change -> slice write, ms           fastest   median      p99")
    for services, endpoints in ((1, 5), (1, 100), (1, 1000), (1000, 5)):
        report(f"{services} services of {endpoints} endpoints", change_latencies(services, endpoints))
    print("one sync of one service (plan only), ms of CPU    fastest   median      p99")
    for endpoints in (100, 1000, 5000):
        report(f"{endpoints} endpoints, nothing changed", sync_times(endpoints, changed=0))
        report(f"{endpoints} endpoints, one pod changed", sync_times(endpoints, changed=1))
        report(f"{endpoints} endpoints, right after a restart", sync_times(endpoints, changed=0, remember=False))


def report(what: str, seconds: list[float]) -> None:
    times = sorted(1000 * each for each in seconds)
    p99 = times[min(len(times) - 1, int(0.99 * len(times)))]
    print(f"  {what:45} {times[0]:9.3f} {statistics.median(times):8.3f} {p99:8.3f}")


def change_latencies(services: int, endpoints: int) -> list[float]:
    """Return the seconds from the call to the event, for one change at a time."""
    api = ApiServer()
    for node in NODES.values():
        api.create("nodes", "", node)
    for number in range(services):
        api.create("services", "default", service_of(f"s{number}"))
        for pod in pods_of(f"s{number}", endpoints):
            api.update_status("pods", "default", {**api.create("pods", "default", pod), "status": pod["status"]})
    controller = EndpointSliceController(api)
    controller.start()
    wait(controller)
    events: SimpleQueue[Event] = SimpleQueue()
    subscription = api.subscribe(["endpointslices"], events.put)
    while events.get().type != "SYNCED":
        pass
    found = [change(api, events, ready=run % 2 == 1) for run in range(RUNS)]
    subscription.close()
    controller.stop()
    return found


def change(api: ApiServer, events: SimpleQueue[Event], *, ready: bool) -> float:
    pod = api.get("pods", "default", "s0-0")
    conditions = [{"type": "Ready", "status": str(ready)}]
    begin = time.perf_counter()
    api.update_status("pods", "default", {**pod, "status": {**pod["status"], "conditions": conditions}})
    events.get(timeout=10)
    return time.perf_counter() - begin


def sync_times(endpoints: int, *, changed: int, remember: bool = True) -> list[float]:
    """Return the seconds for planning a Service whose slices are correct except for `changed` new pods."""
    service = {**service_of("s0"), "spec": {**service_of("s0")["spec"], "ipFamilies": ["IPv4"]}}
    pods = list(pods_of("s0", endpoints))
    slices = [orjson.loads(orjson.dumps(each)) for each in plan(service, pods, [], EndpointCache()).create]
    for number, each in enumerate(slices):
        each["metadata"] |= {"name": f"s0-{number}", "resourceVersion": "1"}
    memo = EndpointCache()
    plan(service, pods, slices, memo)
    found = []
    for _ in range(max(10, 20_000 // endpoints)):
        pods[:changed] = [unready(pod) for pod in pods[:changed]]
        begin = time.thread_time()
        planned = plan(service, pods, slices, memo if remember else EndpointCache())
        found.append(time.thread_time() - begin)
        assert len(planned.update) == changed
    return found


def unready(pod: Object) -> Object:
    return {**pod, "status": {**pod["status"], "conditions": [{"type": "Ready", "status": "False"}]}}


def plan(service: Object, pods: list[Object], slices: list[Object], memo: EndpointCache) -> SlicePlan:
    return plan_service(service, pods, NODES, slices, features=Features(), memo=memo)


def wait(controller: EndpointSliceController) -> None:
    while not controller.synced():
        time.sleep(0.001)


def service_of(name: str) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "clusterIP": "None",
            "selector": {"app": name},
            "ports": [{"port": 80, "targetPort": 8080}],
            "trafficDistribution": "PreferSameNode",
        },
    }


def pods_of(service: str, count: int) -> list[Object]:
    return [
        {
            "metadata": {"name": f"{service}-{n}", "namespace": "default", "labels": {"app": service}, "uid": f"{n}"},
            "spec": {"nodeName": f"n{n % len(NODES)}", "containers": [{"name": "c", "image": "i"}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "podIPs": [{"ip": f"10.{n // 60000}.{n // 250 % 250}.{n % 250 + 1}"}],
            },
        }
        for n in range(count)
    ]


if __name__ == "__main__":
    main()
