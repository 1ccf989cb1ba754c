"""The number of queries per second that the DNS server answers for a headless Service of 100 endpoints, by dnsperf.

    python benchmarks/dns_server.py [--seconds 5]

The server and the load are in netns of an embedded network, and a node forwards packets between them. dnsperf (Debian
package `dnsperf`) runs in a pod in another zone. The server's thread is pinned to one core, and dnsperf to another core
if there is one. Each row has two results: the maximum number of queries per second, and the latencies at 5,000
queries/s.

The rows are: a Service without topology keys; a Service with topology keys (33 of its endpoints are in the client's
zone); the first Service with answers truncated to 512 bytes; over TCP; and with 20 changes of the Service's endpoints
per second. In the last row the API server slows down the DNS server, because both share one Python interpreter, and
processing a slice takes some milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator

from harness.eventually import eventually
from harness.model.topology import THREE_ZONES, ZONE_LABEL
from harness.netns import sandbox
from harness.netns.fabric import Network, NetworkPeer
from harness.netns.namespace import Namespace
from reference.apiserver import ApiServer
from reference.dns import DnsServer
from reference.features import Features

FEATURES = Features(gates={"ServiceTopology": True})
ENDPOINTS = 100
RATE = 5000
ZONES = "abc"
ROWS = (
    ("no topology keys", "plain", ("-e",), 0),
    ("zone, then anywhere", "zoned", ("-e",), 0),
    ("answers truncated to 512 bytes", "plain", (), 0),
    ("over TCP", "plain", ("-m", "tcp"), 0),
    ("20 endpoints change a second", "zoned", ("-e",), 20),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=5)
    seconds = parser.parse_args().seconds
    if shutil.which("dnsperf") is None:
        print("skipped: dnsperf is not installed (Debian package dnsperf)")
        return
    sandbox.enter()
    api = cluster()
    with Network(THREE_ZONES) as network, contextlib.ExitStack() as stack:
        server = DnsServer(api, features=FEATURES)
        server.start()
        stack.callback(server.stop)
        there, client = network.add_pod("a1"), network.add_pod("b1")
        locate(api, "client", "b", client.addresses["IPv4"])
        for sock in listening(there):
            server.listen(sock)
        eventually(server.synced, within=60, describe="the DNS server to be synced")
        print(f"{'':30} queries/s  asked {RATE}/s: got   p50 ms   p99 ms   max ms    lost")
        for what, service, options, changes in ROWS:
            with changing(api, service, changes):
                fastest, _, _ = dnsperf(client, there, service, options, seconds)
                rate, latencies, lost = dnsperf(client, there, service, (*options, "-v", "-Q", str(RATE)), seconds)
            shown = " ".join(f"{of(latencies, part):8.2f}" for part in (0.5, 0.99, 1.0))
            print(f"{what:30} {fastest:9.0f} {rate:13.0f} {shown} {lost:7}", flush=True)


def dnsperf(
    client: NetworkPeer, there: NetworkPeer, service: str, options: tuple[str, ...], seconds: int
) -> tuple[float, list[float], int]:
    """Return queries per second, latencies in ms (none unless `options` has -v), and the number of lost queries."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as questions:
        questions.write(f"{service}.default.svc.cluster.local A\n")
        questions.flush()
        command = ["dnsperf", "-s", there.addresses["IPv4"], "-d", questions.name, "-l", str(seconds), "-c", "10"]
        text = run(client.namespace, [*command, "-q", "50", "-t", "1", *options])
    rate, lost = (re.search(rf"Queries {what}:\s+([\d.]+)", text) for what in ("per second", "lost"))
    assert rate is not None, text
    assert lost is not None, text
    latencies = [1000 * float(each) for each in re.findall(r"^> NOERROR \S+ A ([\d.]+)$", text, re.MULTILINE)]
    return float(rate[1]), sorted(latencies), int(lost[1])


def of(latencies: list[float], part: float) -> float:
    return latencies[min(len(latencies) - 1, int(part * len(latencies)))]


def run(namespace: Namespace, command: list[str]) -> str:
    """Return the output of a program in a netns, on the last core."""
    with namespace.entered():
        made = subprocess.run(
            ["taskset", "-c", str((os.cpu_count() or 1) - 1), *command], capture_output=True, text=True, check=False
        )
    return made.stdout + made.stderr


def cluster() -> ApiServer:
    """Create the Services `plain` and `zoned` with 100 endpoints each, distributed over three zones."""
    api = ApiServer(FEATURES)
    for service, keys in (("plain", None), ("zoned", [ZONE_LABEL, "*"])):
        spec = {"clusterIP": "None", "ports": [{"port": 80}], **({"topologyKeys": keys} if keys else {})}
        api.create("services", "default", {"metadata": {"name": service}, "spec": spec})
        publish(api, service, 0)
    for number in range(ENDPOINTS):
        locate(api, f"p{number}", ZONES[number % 3], f"10.1.0.{number}")
    return api


def publish(api: ApiServer, service: str, leave_out: int) -> None:
    """Write the slice. The endpoint `leave_out` is not ready. With 0, all are ready."""
    endpoints = [
        {"addresses": [f"10.1.0.{number}"], "conditions": {"ready": not number or number != leave_out}}
        for number in range(ENDPOINTS)
    ]
    obj = {
        "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
    }
    there = api.registry.store.get("endpointslices", ("default", service)) is not None
    (api.update if there else api.create)("endpointslices", "default", obj)


def locate(api: ApiServer, pod: str, zone: str, ip: str) -> None:
    said = {"ips": [{"ip": ip}], "nodeName": f"{zone}1", "nodeLabels": {ZONE_LABEL: zone}}
    api.create("podlocators", "default", {"metadata": {"name": pod}, **said})


@contextlib.contextmanager
def changing(api: ApiServer, service: str, per_second: int) -> Iterator[None]:
    """Change endpoints of the Service during the block."""
    ended = threading.Event()

    def change() -> None:
        number = 0
        while not ended.wait(1 / per_second):
            number = number % (ENDPOINTS - 1) + 1
            publish(api, service, number)

    thread = threading.Thread(target=change, daemon=True)
    if per_second:
        thread.start()
    yield
    ended.set()
    if per_second:
        thread.join()


def listening(host: NetworkPeer) -> Iterator[socket.socket]:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        sock = host.namespace.socket(socket.AF_INET, kind)
        sock.bind((host.addresses["IPv4"], 53))
        if kind == socket.SOCK_STREAM:
            sock.listen(100)
        yield sock


if __name__ == "__main__":
    os.sched_setaffinity(0, {0})  # the server and everything that it needs use one core
    main()
