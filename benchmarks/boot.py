"""Compares the boot of an embedded cluster's network with the same network built by `ip` processes and by `ip -batch`.

    python benchmarks/boot.py [--quick]

The network has 3 zones with 2 nodes each and 5 pods per node: 38 netns, 37 veth pairs, IPv4 and IPv6. Rounds are
interleaved in one process. The `ip` commands create the same links, addresses, routes and rules. They set no sysctls
and do not wait until links carry packets, which favours `ip`. Their named netns are in a mount namespace of this
process, so nothing remains.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness.model.topology import grid
from harness.netns import sandbox
from harness.netns.addresses import EVERYTHING, EXTERNAL_CLIENT, FAMILIES, GATEWAY, Family, NodeAddresses, family_of
from harness.netns.fabric import Network
from harness.netns.namespace import unshare

CLONE_NEWNS = 0x20000
TOPOLOGY = grid("three_by_two", {"a": 2, "b": 2, "c": 2})
PODS = 5
TARGETS = {"ip processes": 12.0, "ip -batch": 2.5}  # minimum factor by which this project must be faster

# This command runs separately, because in a batch `ip rule` applies to IPv4 regardless of its prefix.
RULE_OF_IPV6 = ["ip", "-6", "-n", "fabric", "rule", "add", "iif", "ext", "table", "100", "priority", "100"]

Commands = dict[str, list[str]]  # by netns: what `ip -n NETNS` is to do there, in order of the netns


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 2 if parser.parse_args().quick else 7
    sandbox.enter()
    methods: dict[str, Callable[[], float]] = {"this project": ours}
    if shutil.which("ip"):
        hide_named_netns()
        methods |= {"ip -batch": ip_batch, "ip processes": ip_processes}
    else:
        print("skipped: ip processes and ip -batch (no `ip` here: install iproute2)")
    times: dict[str, list[float]] = {name: [] for name in methods}
    for number in range(rounds * len(methods)):
        name = list(methods)[number % len(methods)]
        times[name].append(methods[name]())
        time.sleep(0.5)  # the kernel destroys netns in the background, which slows down creating new ones
    report(times)


def report(times: dict[str, list[float]]) -> None:
    """Print one line for each method: the median, the range, the ratio to this project, and the expected ratio."""
    base = statistics.median(times["this project"])
    for name, taken in times.items():
        median = statistics.median(taken)
        target = f"   expected: {TARGETS[name]:g}" if name in TARGETS else ""
        spread = f"({min(taken) * 1e3:.0f}-{max(taken) * 1e3:.0f})"
        print(f"{name:14} {median * 1e3:7.1f} ms {spread:>12} {median / base:6.1f}x{target}")


def ours() -> float:
    """Return the seconds until the network is complete."""
    begin = time.perf_counter()
    with Network(TOPOLOGY) as network:
        for node in network.nodes:
            for _ in range(PODS):
                network.add_pod(node)
        return time.perf_counter() - begin


def ip_processes() -> float:
    """Build the same network, with one process for each operation."""
    planned = commands()
    begin = time.perf_counter()
    for netns in planned:
        run(["ip", "netns", "add", netns])
    for netns, operations in planned.items():
        for operation in operations:
            run(["ip", "-n", netns, *operation.split()])
    run(RULE_OF_IPV6)
    return ended(begin)


def ip_batch() -> float:
    """Build the same network, with one process to create all netns and then one process for each netns."""
    planned = commands()
    begin = time.perf_counter()
    run(["ip", "-batch", "-"], "".join(f"netns add {netns}\n" for netns in planned))
    for netns, operations in planned.items():
        run(["ip", "-n", netns, "-batch", "-"], "\n".join(operations) + "\n")
    run(RULE_OF_IPV6)
    return ended(begin)


def ended(begin: float) -> float:
    """Return the elapsed seconds, and delete the named netns."""
    taken = time.perf_counter() - begin
    run(["ip", "-all", "netns", "delete"])
    return taken


def commands() -> Commands:
    """Return the commands for each netns: fabric, nodes, pods, because each creates the links to the next."""
    addresses = {family: EXTERNAL_CLIENT[family] for family in FAMILIES}
    planned: Commands = {"fabric": ["link set lo up", pair("ext", "external")], "external": end(addresses)}
    for family in FAMILIES:
        planned["fabric"] += [
            f"route add blackhole {EVERYTHING[family]}",
            f"route add {addresses[family]} dev ext",
        ]
    planned["fabric"].append("rule add iif ext table 100 priority 100")
    for number, node in enumerate(TOPOLOGY.nodes, 1):
        add_node(planned, node.name, NodeAddresses(number))
    order = sorted(planned, key=lambda netns: ("-" in netns, netns != "fabric"))
    return {netns: planned[netns] for netns in order}


def add_node(planned: Commands, node: str, plan: NodeAddresses) -> None:
    """Return the commands for a node, for the fabric's routes to it, and for its pods."""
    planned["fabric"].append(pair(node, node))
    planned[node] = end(plan.addresses)
    for family, node_ip in plan.addresses.items():
        via = f"via {node_ip} dev {node} onlink"
        planned["fabric"] += [
            f"route add {node_ip} dev {node}",
            f"route add {plan.pod_cidrs[family]} {via}",
            *(f"route add {cidr} {via} table 100" for cidr in plan.virtual_cidrs if family_of(cidr) == family),
        ]
        planned[node].append(f"route add blackhole {plan.pod_cidrs[family]}")
    for number in range(2, 2 + PODS):
        pod = f"{node}-{number}"
        planned[node].append(pair(pod, pod))
        planned[pod] = end(plan.pod(number))
        for family, pod_ip in plan.pod(number).items():
            planned[node].append(f"route add {pod_ip} dev {pod} src {plan.addresses[family]}")


def pair(name: str, netns: str) -> str:
    """Create a veth pair to that netns. Without ARP, and with equal hardware addresses, it needs no gateway address."""
    ends = "address 02:74:64:00:00:01 arp off numtxqueues 1 numrxqueues 1"
    return f"link add {name} up {ends} type veth peer name eth0 netns {netns} {ends}"


def end(addresses: dict[Family, str]) -> list[str]:
    """Configure the other end of a pair: set it up, with its addresses and a default route."""
    found = ["link set lo up", "link set eth0 up arp off"]
    for family, host in addresses.items():
        found += [
            f"addr add {host} dev eth0{' nodad' if family == 'IPv6' else ''}",
            f"route add default via {GATEWAY[family]} dev eth0 onlink src {host}",
        ]
    return found


def run(command: list[str], text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")


def hide_named_netns() -> None:
    """Give this process a mount namespace with an empty /run, where `ip` keeps named netns."""
    unshare(CLONE_NEWNS)
    run(["mount", "--make-rprivate", "/"])
    run(["mount", "-t", "tmpfs", "tmpfs", "/run"])
    Path("/run/netns").mkdir()


if __name__ == "__main__":
    main()
