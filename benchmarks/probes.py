"""Compares probes with a spawned `curl`, the usual alternative, for the same address and in the same run.

    python benchmarks/probes.py [--quick] [--target service|pod] [--family IPv4|IPv6]

Both send one request at a time and alternate, so that a busy machine slows both. "One call each" means that the caller
waits for each probe before the next. "One in flight" means a batch of ten probes, as in a measuring window. `curl` is
started in the fastest possible way: a thread that is already in the client's netns spawns it, without `ip netns exec`
or `nsenter`. Our server does not implement HTTP, so curl exits with code 1 as soon as it has read the answer, and waits
for nothing else.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial

from harness.backends.backend import WantedPod
from harness.backends.netns import NetnsBackend
from harness.eventually import eventually
from harness.model import manifests
from harness.model.outcomes import Reached
from harness.model.workloads import pod_client
from harness.netns import sandbox
from harness.probes.loop import Probe

CLIENT, SERVER = "a1", "b1"
NOT_HTTP = 1  # curl's exit code for an answer that is not HTTP


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--target", choices=["service", "pod"], default="service", help="what is asked")
    parser.add_argument("--family", choices=["IPv4", "IPv6"], default="IPv4")
    options = parser.parse_args()
    sandbox.enter()
    with NetnsBackend() as backend:
        address, port = target(backend, options.target, options.family)
        probes = {
            protocol: Probe(backend.namespace_of(pod_client(CLIENT)), protocol, address, port, timeout=0.9)
            for protocol in ("TCP", "UDP")
        }
        for probe in probes.values():
            eventually(partial(answered, backend, probe), within=10, describe="the first answer")
        print(f"pod on {CLIENT} to the {options.target} address {address}, port {port}")
        one_at_a_time(backend, probes, rounds=20 if options.quick else 200)
        for protocol, probe in probes.items():
            many_at_once(backend, protocol, probe, count=2000 if options.quick else 10_000)


def target(backend: NetnsBackend, kind: str, family: str) -> tuple[str, int]:
    """Return the address and port of a Service with one endpoint on another node, or of the endpoint itself."""
    backend.api.create("namespaces", "", {"metadata": {"name": "bench"}})
    (pod,) = backend.run_pods("bench", [WantedPod("server", SERVER)])
    if kind == "pod":
        return pod.addresses[family], manifests.TARGET_PORT
    ports = [manifests.Port(80, name="tcp"), manifests.Port(80, protocol="UDP", name="udp")]
    service = backend.api.create("services", "bench", manifests.service("web", ports=ports, ipFamilies=[family]))
    endpoint = manifests.Endpoint(pod.addresses, node=pod.node, zone=pod.zone)
    written = manifests.endpoint_slice("web-1", "web", [endpoint], ports=ports, family=family)
    backend.api.create("endpointslices", "bench", written)
    backend.settle()
    return str(service["spec"]["clusterIP"]), 80


def one_at_a_time(backend: NetnsBackend, probes: dict[str, Probe], *, rounds: int) -> None:
    """Alternate: one curl, then for each protocol ten probes in ten calls and ten probes in one call."""
    curl = shutil.which("curl")
    calls: dict[str, list[float]] = {protocol: [] for protocol in probes}
    flights: dict[str, list[float]] = {protocol: [] for protocol in probes}
    curls: list[float] = []
    for _ in range(rounds):
        for protocol, probe in probes.items():
            calls[protocol] += [timed(partial(ask, backend, [probe])) for _ in range(10)]
            flights[protocol].append(timed(partial(ask, backend, [probe] * 10, in_flight=1)) / 10)
        if curl:
            curls.append(timed(partial(spawn, curl, probes["TCP"], backend)))
    for protocol in probes:
        print(f"{protocol} probes, one call each: {spread(calls[protocol])}")
        print(f"{protocol} probes, one in flight: {spread(flights[protocol])}")
    if not curl:
        print("curl: skipped, there is no curl on this machine")
        return
    print(f"spawned curl: {spread(curls)}")
    for name, times in (("one in flight", flights["TCP"]), ("one call each", calls["TCP"])):
        ratio = statistics.median(curls) / statistics.median(times)
        print(f"a TCP probe, {name}, is {ratio:.0f} times as fast as a spawned curl (medians)")


def many_at_once(backend: NetnsBackend, protocol: str, probe: Probe, *, count: int) -> None:
    """Return the number of probes per second with 32 in flight."""
    rates = sorted(count / timed(partial(ask, backend, [probe] * count)) for _ in range(3))
    print(f"{protocol} probes, 32 in flight: {rates[1]:,.0f} a second ({rates[0]:,.0f} to {rates[-1]:,.0f})")


def answered(backend: NetnsBackend, probe: Probe) -> bool:
    """Return whether the path is ready: rules are in place, and links carry packets."""
    return isinstance(backend.probe([probe])[0], Reached)


def ask(backend: NetnsBackend, probes: Sequence[Probe], in_flight: int = 32) -> None:
    """Send probes, and require answers, so that only successful probes are timed."""
    wrong = [each for each in backend.probe(probes, in_flight=in_flight) if not isinstance(each, Reached)]
    if wrong:
        raise SystemExit(f"{len(wrong)} of {len(probes)} probes were not answered: {wrong[0]}")


def spawn(curl: str, probe: Probe, backend: NetnsBackend) -> None:
    """Run one curl in the client's netns."""
    host = f"[{probe.address}]" if ":" in probe.address else probe.address
    with backend.namespace_of(pod_client(CLIENT)).entered():
        ended = subprocess.run(
            [curl, "--silent", "--max-time", "1", "--output", "/dev/null", f"http://{host}:{probe.port}/"], check=False
        )
    if ended.returncode != NOT_HTTP:
        raise SystemExit(f"curl ended with {ended.returncode} instead of {NOT_HTTP} after an answer")


def timed(action: Callable[[], None]) -> float:
    """Return the seconds that the call takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def spread(seconds: Sequence[float]) -> str:
    """Return the median and the 99th percentile, in ms."""
    ordered = sorted(seconds)
    return f"p50 {statistics.median(ordered) * 1e3:.2f} ms, p99 {ordered[int(len(ordered) * 0.99)] * 1e3:.2f} ms"


if __name__ == "__main__":
    main()
