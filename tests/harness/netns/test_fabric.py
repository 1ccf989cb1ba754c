from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.errors import HarnessError, InconclusiveError, UsageError
from harness.model.topology import Node, Topology, grid
from harness.netns import addresses, fabric, process, rtnetlink
from harness.netns.addresses import FAMILIES, Family
from harness.netns.fabric import Network, NetworkPeer
from harness.netns.namespace import Namespace
from harness.netns.process import search_path

Reach = Callable[[NetworkPeer, NetworkPeer, Family], str]
Send = Callable[..., str]

each_family = pytest.mark.parametrize("family", FAMILIES)


@each_family
@pytest.mark.parametrize("server", ["pod", "neighbour", "remote pod", "node", "remote node"])
@pytest.mark.parametrize("client", ["pod", "node", "external"])
def test_every_client_reaches_pods_and_nodes_under_its_own_address(
    network: Network, reach: Reach, client: str, server: str, family: Family
) -> None:
    hosts = {"external": network.external, "node": network.nodes["a1"], "remote node": network.nodes["b1"]}
    hosts |= {"pod": network.add_pod("a1"), "neighbour": network.add_pod("a1"), "remote pod": network.add_pod("b1")}
    assert reach(hosts[client], hosts[server], family) == hosts[client].addresses[family]


VIRTUAL = {"IPv4": "10.96.0.7", "IPv6": "fd00:10:96::7"}
TO_THE_NODE = """table inet t { chain c {
  type nat hook prerouting priority dstnat; meta l4proto { tcp, udp } th dport 80 redirect to :8080
}; }"""
FROM_THE_NODE = "table inet t { chain c { type nat hook postrouting priority srcnat; masquerade; }; }"
needs_nft = pytest.mark.skipif(shutil.which("nft", path=search_path()) is None, reason="unavailable: nft")


@needs_nft
@each_family
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_redirected_packets_of_pods_are_answered_by_their_node(network: Network, family: Family, protocol: str) -> None:
    """A proxy in user space gets packets by REDIRECT, which needs an address of the pod's link, and answers them."""
    node, pods = network.nodes["a1"], [network.add_pod("a1") for _ in range(2)]
    assert process.run(node.namespace, ["nft", TO_THE_NODE]).returncode == 0
    kind = {"IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}[family]
    of_protocol = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    with node.namespace.socket(kind, of_protocol) as proxy:
        proxy.settimeout(30)
        proxy.bind(("", 8080))
        for pod in (*pods, network.add_pod("a1")):
            with pod.namespace.socket(kind, of_protocol) as client:
                client.settimeout(30)
                if protocol == "tcp":
                    proxy.listen()
                    client.connect((VIRTUAL[family], 80))
                    accepted, peer = proxy.accept()
                    accepted.close()
                else:
                    client.connect((VIRTUAL[family], 80))
                    client.send(b"who")
                    _, peer = proxy.recvfrom(100)
                    proxy.sendto(b"you", peer)
                    assert client.recv(100) == b"you"
            assert peer[0] == pod.addresses[family]
            network.remove_pod(pod)


@needs_nft
@each_family
def test_node_masquerades_as_itself_and_not_as_the_end_of_a_link(
    network: Network, reach: Reach, family: Family
) -> None:
    node, here, there = network.nodes["a1"], network.add_pod("a1"), network.add_pod("a1")
    assert process.run(node.namespace, ["nft", FROM_THE_NODE]).returncode == 0
    assert reach(here, there, family) == node.addresses[family]


def unprogrammed(network: Network) -> list[str]:
    """An unused address of each kind, in both families: cluster IP, load balancer IP, external IP and pod IP."""
    plan = network.plan("b1")
    sets = [
        {"IPv4": "10.96.0.7", "IPv6": "fd00:10:96::7"},
        plan.virtual("load-balancer", 1),
        plan.virtual("external-ip", 1),
        plan.pod(99),
    ]
    return [by_family[family] for by_family in sets for family in FAMILIES]


@pytest.mark.parametrize("client", ["pod", "node", "external"])
def test_unprogrammed_virtual_address_times_out(network: Network, send: Send, client: str) -> None:
    host = {"pod": network.add_pod("a1"), "node": network.nodes["a1"], "external": network.external}[client]
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(send, host, address) for address in unprogrammed(network)]
    assert [type(each.exception()) for each in answers] == [TimeoutError] * 8


def forwarded(namespace: Namespace) -> int:
    """Return how many IPv4 packets a netns forwarded (ForwDatagrams)."""
    with namespace.entered(), open("/proc/thread-self/net/snmp", encoding="ascii") as file:  # noqa: PTH123
        names, values = (line.split() for line in file if line.startswith("Ip:"))
    return int(values[names.index("ForwDatagrams")])


@each_family
def test_no_packet_is_lost_right_after_the_network_is_created(send: Send, family: Family) -> None:
    for _ in range(20):
        with Network(grid("one", {"a": 1})) as network, pytest.raises(ConnectionRefusedError):
            send(network.external, network.add_pod("a1").addresses[family], timeout=1)


def test_unprogrammed_packet_from_outside_returns_once_and_never_loops(network: Network, send: Send) -> None:
    with pytest.raises(TimeoutError):
        send(network.external, network.plan("b1").virtual("load-balancer", 1)["IPv4"])
    assert forwarded(network.fabric) == 1  # to the node
    assert forwarded(network.nodes["b1"].namespace) == 1  # and from there back into the fabric, which drops it


@each_family
@pytest.mark.parametrize("kind", ["load-balancer", "external-ip"])
def test_node_address_is_routed_only_for_the_external_client(
    network: Network, reach: Reach, send: Send, family: Family, kind: str
) -> None:
    address = network.plan("b1").virtual(kind, 1)
    node = NetworkPeer("b1 as load balancer", network.nodes["b1"].namespace, address)
    rtnetlink.execute(node.namespace, rtnetlink.address(rtnetlink.LOOPBACK, address[family]))
    assert reach(network.external, node, family) == network.external.addresses[family]
    with pytest.raises(TimeoutError):
        send(network.nodes["a1"], address[family])
    with pytest.raises(TimeoutError):
        send(network.add_pod("a1"), address[family])


@each_family
def test_refusals_are_not_rate_limited(network: Network, send: Send, family: Family) -> None:
    pod = network.add_pod("a1")
    for host in (pod, network.nodes["a1"]):
        for _ in range(30):
            with pytest.raises(ConnectionRefusedError):
                send(network.external, host.addresses[family], timeout=1)


def test_two_networks_with_the_same_addresses_are_separate(network: Network, reach: Reach, send: Send) -> None:
    with Network(grid("two", {"a": 1, "b": 1})) as other:
        ours, theirs = network.add_pod("a1"), other.add_pod("a1")
        assert ours.addresses == theirs.addresses
        with ours.namespace.socket(kind=2) as server:
            server.bind(("", 8080))
            with pytest.raises(ConnectionRefusedError):
                send(other.external, ours.addresses["IPv4"], timeout=1)
        assert reach(network.external, ours, "IPv4") == "192.0.2.10"


@each_family
def test_single_family_network_has_only_that_family(family: Family, reach: Reach) -> None:
    with Network(grid("one", {"a": 1}), families=[family]) as network:
        pod = network.add_pod("a1")
        assert set(pod.addresses) == set(network.external.addresses) == {family}
        assert reach(network.external, pod, family) == network.external.addresses[family]


def test_removed_pod_times_out(network: Network, reach: Reach, send: Send) -> None:
    pod = network.add_pod("a1")
    assert reach(network.external, pod, "IPv4")
    network.remove_pod(pod)
    network.remove_pod(pod)
    with pytest.raises(TimeoutError):
        send(network.nodes["b1"], pod.addresses["IPv4"])


def test_address_of_a_pod_that_could_not_be_detached_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class StuckWiring:
        def attach(self, port: fabric.PodAttachment) -> None:
            pass

        def detach(self, pod: NetworkPeer) -> None:
            raise InconclusiveError(f"{pod.name} is still there")

    monkeypatch.setattr(addresses, "MAX_PODS", 3)
    with Network(grid("one", {"a": 1})) as network:
        network.wire_by(StuckWiring())
        pod = network.add_pod("a1")
        for _ in range(2):
            with pytest.raises(InconclusiveError, match=r"a1-2 is still there"):
                network.remove_pod(pod)
        others = [network.add_pod("a1").addresses for _ in range(2)]
        assert pod.addresses not in others
        with pytest.raises(UsageError, match="it already has 3 pods"):
            network.add_pod("a1")


@each_family
@pytest.mark.parametrize("server", ["node", "pod"])
def test_node_that_is_cut_off_is_unreachable(
    network: Network, reach: Reach, send: Send, server: str, family: Family
) -> None:
    host = {"node": network.nodes["a1"], "pod": network.add_pod("a1")}[server]
    network.disconnect("a1")
    with pytest.raises(TimeoutError):
        send(network.nodes["b1"], host.addresses[family])
    network.reconnect("a1")
    assert reach(network.nodes["b1"], host, family) == network.nodes["b1"].addresses[family]


def test_removed_pods_address_is_reused_last() -> None:
    pods = fabric._NodePods({}, last=1)
    given = []
    for _ in range(254):
        number = pods.free_number("a1")
        given.append(number)
        pods.last = number
    assert given == [*range(2, 255), 2]


def test_node_without_free_address_raises_an_error() -> None:
    gone = NetworkPeer("gone", None, {})  # type: ignore[arg-type]
    pods = fabric._NodePods(dict.fromkeys(range(2, 255), gone))
    with pytest.raises(UsageError, match="node a1 has no address for another pod: it already has 253 pods"):
        pods.free_number("a1")


def test_threads_add_pods_at_the_same_time(network: Network, reach: Reach) -> None:
    with ThreadPoolExecutor(4) as pool:
        pods = list(pool.map(network.add_pod, ["a1", "b1"] * 8))
    assert len({pod.name for pod in pods}) == len({pod.addresses["IPv6"] for pod in pods}) == 16
    assert all(reach(network.external, pod, "IPv6") for pod in pods)


def test_pod_on_unknown_node_is_refused_with_the_known_ones(network: Network) -> None:
    with pytest.raises(UsageError, match="no node 'z9': the cluster has a1, b1"):
        network.add_pod("z9")


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_network_holds_one_descriptor_for_each_netns() -> None:
    with Namespace.create() as warm, warm.entered():
        before = open_descriptors()
    with Network(grid("two", {"a": 1, "b": 1})) as network:
        network.add_pod("a1")
        assert open_descriptors() - (before - 1) == 5  # fabric, external client, two nodes, a pod


def test_closing_twice_releases_everything_once() -> None:
    before = open_descriptors()
    network = Network(grid("one", {"a": 1}))
    network.close()
    network.close()
    assert open_descriptors() == before
    with pytest.raises(HarnessError, match="the network is closed"):
        network.add_pod("a1")


def test_network_that_fails_during_creation_releases_everything() -> None:
    before = open_descriptors()
    with pytest.raises(HarnessError, match="cannot create the veth pair b/1 - eth0: Invalid argument"):
        Network(Topology("wrong", (Node("a1", "a"), Node("b/1", "b"))))
    assert open_descriptors() == before


def test_network_closes_while_a_thread_is_inside(network: Network) -> None:
    inside, leave = threading.Event(), threading.Event()

    def visit() -> None:
        with network.nodes["a1"].namespace.entered():
            inside.set()
            leave.wait(5)

    thread = threading.Thread(target=visit, daemon=True)
    thread.start()
    inside.wait(5)
    network.close()
    leave.set()
    thread.join(5)
    assert not thread.is_alive()
