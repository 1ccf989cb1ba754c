"""Tests that a network leaves no netns behind after kill -9, and changes nothing in the netns of its process.

The test moves one end of a veth pair into each netns of the child process. The other end stays in a netns of the test.
The kernel removes a pair with the netns of either end. A missing pair therefore proves that the child's netns no longer
exists, and the check needs neither names nor root.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from harness.eventually import eventually
from harness.model.topology import THREE_ZONES
from harness.netns import rtnetlink, sysctls
from harness.netns.fabric import Network
from harness.netns.namespace import Namespace

CHILD = """
import os, signal, sys
from harness.netns import rtnetlink
from harness.netns import rtnetlink, sysctls
from harness.netns.fabric import Network
from harness.netns.namespace import Namespace
from harness.model.topology import THREE_ZONES

observer = Namespace(int(sys.argv[1]))
network = Network(THREE_ZONES)
pods = [network.add_pod(node) for node in network.nodes]
server = pods[0].namespace.socket()
server.bind(("", 80))
server.listen()
for number, host in enumerate([network.external, *network.nodes.values(), *pods]):
    mark = rtnetlink.veth("mark", 5000, observer, peer_name=f"mark{number}", peer_index=100 + number)
    rtnetlink.execute(host.namespace, [mark])
print("ready", flush=True)
signal.pause()
"""


def marks(observer: Namespace) -> int:
    with observer.entered():
        return sum(name.startswith("mark") for _, name in socket.if_nameindex())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_no_netns_survives_its_process(namespace: Namespace, number: signal.Signals) -> None:
    command = [sys.executable, "-c", CHILD, str(namespace.fd)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=[namespace.fd], text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        assert marks(namespace) == 11  # the external client, five nodes, five pods
        child.send_signal(number)
        child.wait(10)
    eventually(
        lambda: marks(namespace) == 0, within=10, describe=lambda: f"the end of {marks(namespace)} of the child's netns"
    )


LINK = ("IFLA_IFNAME", "IFLA_ADDRESS", "IFLA_MTU", "IFLA_OPERSTATE", "IFLA_QDISC")
ADDRESS = ("IFA_ADDRESS", "IFA_LOCAL", "IFA_LABEL", "IFA_FLAGS")
ROUTE = ("RTA_TABLE", "RTA_DST", "RTA_OIF", "RTA_GATEWAY", "RTA_PREFSRC", "RTA_PRIORITY")
RULE = ("FRA_PRIORITY", "FRA_TABLE", "FRA_IIFNAME", "FRA_SRC")


def parts(dump: Iterable[Any], names: Sequence[str]) -> list[str]:
    """Return the attributes of each message, except those that the kernel changes, such as counters and lifetimes."""
    return sorted(str([each.get("index"), each.get("flags"), *map(each.get_attr, names)]) for each in dump)


def text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        return str(error.errno)  # a write-only setting


def snapshot() -> dict[str, object]:
    """Return the links, addresses, routes, rules and settings of the netns of this process."""
    found: dict[str, object] = {}
    with IPRoute() as ip:
        found["links"] = parts(ip.get_links(), LINK)
        found["addresses"] = parts(ip.get_addr(), ADDRESS)
        found["routes"] = parts(ip.get_routes(), ROUTE)
        found["rules"] = parts(ip.get_rules(), RULE)
    files = [path for path in Path("/proc/sys/net").rglob("*") if path.is_file() and not path.name.endswith("_count")]
    return found | {str(path): text(path) for path in files}


def test_snapshot_sees_a_change_of_its_own_netns(namespace: Namespace) -> None:
    with namespace.entered():
        before = snapshot()
        rtnetlink.execute(namespace, [rtnetlink.up(rtnetlink.LOOPBACK)])
        sysctls.apply(namespace, {"ipv4/ip_forward": "1" if before["/proc/sys/net/ipv4/ip_forward"] == "0\n" else "0"})
        after = snapshot()
    changed = {name for name in before if before[name] != after[name]}
    assert {"links", "addresses", "routes", "/proc/sys/net/ipv4/ip_forward"} <= changed


def test_netns_of_the_process_is_the_same_before_during_and_after() -> None:
    before = snapshot()
    with Network(THREE_ZONES) as network:
        network.remove_pod(network.add_pod("a1"))
        network.add_pod("b2")
        assert snapshot() == before
    assert snapshot() == before
