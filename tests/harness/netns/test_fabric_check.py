"""Tests that a run does not start on an incomplete fabric.

The error lists the missing objects, and no requirement fails.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DistrustError
from harness.model.topology import THREE_ZONES
from harness.netns import fabric_check, iproute
from harness.netns.addresses import FAMILIES, Family, NodeAddresses
from harness.netns.fabric import Network
from harness.netns.kernel_state import Link

DEFAULT = {"dst": "0.0.0.0/0", "gateway": "169.254.1.1", "oif": 2}

BROKEN: dict[str, tuple[str, Callable[[Any], None], str]] = {
    "route of a node": (
        "a1",
        lambda ip: ip.route("del", **DEFAULT),
        "node a1 has no route default via 169.254.1.1 dev",
    ),
    "blackhole of a node": (
        "a1",
        lambda ip: ip.route("del", dst="10.244.1.0/24", type="blackhole"),
        "node a1 has no route blackhole 10.244.1.0/24$",
    ),
    "address of a node": (
        "b1",
        lambda ip: ip.addr("del", index=2, address="fd00:10::2", prefixlen=128),
        "node b1 has no address fd00:10::2/128 dev eth0; node b1 has no route ::/0 via fe80::1 dev eth0",
    ),
    "link of a node": ("b1", lambda ip: ip.link("set", index=2, state="down"), "node b1 has no link eth0 up arp off"),
    "link that resolves": ("b1", lambda ip: ip.link("set", index=2, arp=True), "node b1 has no link eth0 up arp off$"),
    "loopback": ("a1", lambda ip: ip.link("set", index=1, state="down"), "node a1 has no link lo up; "),
    "route of the fabric": (
        "fabric",
        lambda ip: ip.route("del", dst="198.18.2.0/24", oif=102, table=100),
        r"the fabric has no route 198\.18\.2\.0/24 via 10\.0\.0\.3 dev b1 table 100$",
    ),
    "rule of the fabric": (
        "fabric",
        lambda ip: ip.rule("del", family=10, iifname="external", priority=100, table=100),
        "the fabric has no rule IPv6 100: from all iif external lookup 100$",
    ),
    "way to the external client": (
        "external",
        lambda ip: ip.addr("del", index=2, address="192.0.2.10", prefixlen=32),
        "the external client has no address 192.0.2.10/32 dev eth0",
    ),
}


def test_fabric_check_passes_with_pods_without_pods_and_with_a_node_cut_off(network: Network) -> None:
    fabric_check.check(network)
    network.add_pod("a1")
    network.disconnect("b1")
    fabric_check.check(network)


@pytest.mark.parametrize("family", FAMILIES)
def test_fabric_check_passes_with_one_ip_family(family: Family) -> None:
    with Network(THREE_ZONES, families=[family]) as network:
        fabric_check.check(network)


@pytest.mark.parametrize("case", BROKEN)
def test_broken_fabric_is_reported_with_its_netns(network: Network, case: str) -> None:
    place, breaks, said = BROKEN[case]
    others = {"fabric": network.fabric, "external": network.external.namespace}
    namespace = others[place] if place in others else network.nodes[place].namespace
    with iproute.routing(namespace, "break the fabric") as ip:
        breaks(ip)
    with pytest.raises(DistrustError, match=f"^the network of the embedded cluster is broken: (.*; )?{said}"):
        fabric_check.check(network)


def test_deleted_interfaces_of_a_node_are_named_with_their_suspect(network: Network) -> None:
    network.programs = "programs of the proxy mine"
    pod = network.add_pod("a1", name="web")
    for index in (1002, 2):  # the link of the first pod, and eth0
        with iproute.routing(network.nodes["a1"].namespace, "break the node") as ip:
            ip.link("del", index=index)
        if index != 2:
            with pytest.raises(DistrustError, match=r"^interface web of node a1 has been deleted, .*of the proxy mine"):
                network.remove_pod(pod)
    with pytest.raises(
        DistrustError, match=r": interface eth0 of node a1 has been deleted, .*only programs of the pro"
    ):
        fabric_check.check(network)


def test_faults_are_expected_entries_that_are_absent() -> None:
    wanted = fabric_check.expected({"a1": NodeAddresses(1)}, ["IPv4"])
    there = {place: set(items) for place, items in wanted.items()}
    assert fabric_check.faults(wanted, there) == []
    there["node a1"] |= {Link("kube-ipvs0", "down", arp=False)}
    there["the fabric"] -= {Link("a1", "up", arp=False)}
    there["the fabric"] |= {Link("a1", "no-carrier", arp=False)}
    assert fabric_check.faults(wanted, there) == ["the fabric has no link a1 up arp off"]


def test_long_list_of_faults_is_cut(network: Network) -> None:
    with iproute.routing(network.fabric, "break the fabric") as ip:
        ip.flush_routes(table=100)
        ip.link("set", index=101, state="down")
    with pytest.raises(DistrustError, match=r"has no .*(; .* has no .*){4}; and \d+ more$"):
        fabric_check.check(network)


SUITE = """
from trafficdist import MUST, Cluster, Feature, Profile, requirement
from harness.backends.netns import NetnsBackend
from harness.netns import iproute

boot = NetnsBackend.start

def start(self):
    boot(self)
    with iproute.routing(self.network.nodes["b1"].namespace, "break the fabric") as ip:
        ip.route("del", dst="0.0.0.0/0", gateway="169.254.1.1", oif=2)
    return self

NetnsBackend.start = start

ROUTING = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")

@requirement("KEP-1/answers", "Pods answer.", level=MUST, features={ROUTING}, source="KEP-1")
def test_answers(three_zones: Cluster) -> None:
    raise AssertionError("a requirement was judged on a broken fabric")
"""


def test_a_run_on_a_broken_fabric_ends_before_it_judges(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "test_sample.py").write_text(SUITE, encoding="utf-8")
    command = [sys.executable, "-c", "from harness.commands.main import main; main()", "run", "--suite", "pack"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, cwd=tmp_path)
    assert done.returncode == 12, done.stdout + done.stderr
    assert "broken: node b1 has no route default via 169.254.1.1 dev eth0 src 10.0.0.4" in " ".join(done.stdout.split())
    assert "a requirement was judged" not in done.stdout
