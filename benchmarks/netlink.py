"""Compares this project's netlink code with pyroute2 for a boot: veth pairs, addresses, routes, and reading them back.

    python benchmarks/netlink.py [--quick]

A round uses a netns with 30 veth pairs to a second netns, and each end has an IPv4 address, an IPv6 address and a route
of each family. Both libraries create the same objects in the same order, in existing netns. Rounds are interleaved in
one process. All times are CPU time, which other work on the machine affects least; no operation waits. pyroute2
is measured with an acknowledgement for each object, which is how its calls work, and in one batch (`IPBatch`). Two more
values are measured for pyroute2 alone: its import after a boot, and the check of a whole fabric of 5 nodes.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from pyroute2 import IPBatch, IPRoute

from harness.model.topology import THREE_ZONES
from harness.netns import fabric_check, iproute, rtnetlink, sandbox
from harness.netns.fabric import Network
from harness.netns.namespace import Namespace

PAIRS = 30
HARDWARE = "02:74:64:00:00:01"
IMPORT = """
import time
from harness.backends.netns import NetnsBackend
with NetnsBackend():
    begin = time.process_time()
    import pyroute2
    print(time.process_time() - begin)
"""


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 15
    sandbox.enter()
    methods = {"this project": ours, "pyroute2, one batch": in_a_batch, "pyroute2, call by call": call_by_call}
    times: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(rounds):
        for name, method in methods.items():
            times[name].append(measured(method))
            time.sleep(0.2)  # the kernel destroys netns in the background, which slows down creating new ones
    base = statistics.median(times["this project"])
    for name, taken in times.items():
        print(f"{name:23} {shown(taken)} {statistics.median(taken) / base:5.1f}x")
    print(f"{'import after a boot':23} {shown([imported() for _ in range(min(rounds, 5))])}")
    print(f"{'check of a fabric':23} {shown(list(checks(rounds)))}")


def shown(taken: list[float]) -> str:
    """Return the median and the range."""
    return f"{statistics.median(taken) * 1e3:7.1f} ms ({min(taken) * 1e3:.1f}-{max(taken) * 1e3:.1f})"


def measured(method: Callable[[Namespace, Namespace], None]) -> float:
    """Return the CPU seconds that one method takes in two new netns. Check that all objects exist afterwards."""
    with Namespace.create() as here, Namespace.create() as there:
        begin = time.process_time()
        method(here, there)
        taken = time.process_time() - begin
        with here.entered(), IPRoute() as ip:
            links, addresses = len(list(ip.get_links())), len(list(ip.get_addr(index=100)))
            routes = sum(1 for each in ip.get_routes(table=254) if each.get("gateway"))
        assert (links, addresses, routes) == (1 + PAIRS, 2, 2 * PAIRS), (links, addresses, routes)
    return taken


def ours(here: Namespace, there: Namespace) -> None:
    """One datagram."""
    requests = []
    for number in range(PAIRS):
        index = 100 + number
        requests.append(rtnetlink.veth(f"pod{number}", index, there, peer_name=f"pod{number}", peer_index=index))
        for host, to, via in plan(number):
            requests += rtnetlink.address(index, host)
            requests.append(rtnetlink.route(to, index, via=via, source=host))
    rtnetlink.execute(here, requests)


def call_by_call(here: Namespace, there: Namespace) -> None:
    """Create the objects with an acknowledgement for each object."""
    with here.entered(), IPRoute() as ip:
        _all(ip, there)


def in_a_batch(here: Namespace, there: Namespace) -> None:
    """Create the objects in one batch that pyroute2 packs."""
    batch = IPBatch()
    _all(batch, there)
    with here.entered(), IPRoute() as ip:
        ip.sendto(batch.batch, (0, 0))
    batch.close()


def _all(ip: Any, there: Namespace) -> None:
    for number in range(PAIRS):
        name, index = f"pod{number}", 100 + number
        peer = {"ifname": name, "index": index, "address": HARDWARE, "net_ns_fd": there.fd}
        one = {"address": HARDWARE, "num_tx_queues": 1, "num_rx_queues": 1, "flags": 0x81, "change": 0x81}
        ip.link("add", ifname=name, index=index, kind="veth", peer=peer, **one)
        for host, to, via in plan(number):
            family, length = (10, 128) if ":" in host else (2, 32)
            ip.addr("add", index=index, address=host, prefixlen=length, family=family, flags=0x02)
            if family == 10:  # as in our implementation: packets are accepted immediately
                local = {"dst": f"{host}/128", "oif": index, "table": 255, "type": "local", "priority": 1024}
                ip.route("add", family=family, **local)
            ip.route("add", family=family, dst=to, oif=index, gateway=via, prefsrc=host, flags=["onlink"])


def plan(number: int) -> Iterator[tuple[str, str, str]]:
    """Return address, destination and gateway of a link, for each family."""
    yield f"10.1.{number}.2", f"10.2.{number}.0/24", "169.254.1.1"
    yield f"fd00:1:{number}::2", f"fd00:2:{number}::/64", "fe80::1"


def imported() -> float:
    """Return the seconds that the import takes in a process that has just booted a cluster."""
    return float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout)


def checks(rounds: int) -> Iterator[float]:
    """Return the seconds of a check of 5 nodes, the fabric and the external client."""
    with Network(THREE_ZONES) as network:
        with iproute.routing(network.fabric, "look") as ip:  # tables that pyroute2 creates once
            assert list(ip.get_routes())
        for _ in range(rounds):
            begin = time.process_time()
            fabric_check.check(network)
            yield time.process_time() - begin


if __name__ == "__main__":
    main()
