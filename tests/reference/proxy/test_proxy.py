"""The complete proxy follows the API and recovers from kernel errors without losing packets."""

from __future__ import annotations

import itertools
import logging
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from harness.eventually import eventually
from harness.model.outcomes import REFUSED, Reached
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe
from reference.apiserver import ApiServer
from reference.client.reconnecting_client import ReconnectingClient
from reference.proxy import ServiceProxy
from reference.proxy.netlink import NftSocket
from reference.proxy.nftables import KernelTable, messages
from reference.proxy.ruleset import PortEntries, ServiceAddress
from reference.proxy.table import Table
from tests.reference.proxy.conftest import FAMILIES, Cluster, read_back
from tests.reference.proxy.test_routing import cluster_ip


def test_proxy_follows_the_zone_label_of_its_node(cluster: Cluster) -> None:
    address = cluster_ip(cluster.service("a1-2 zone=a", "b1-2 zone=b"), "IPv4")
    assert cluster.ask("a2", address) == "a1-2"

    cluster.api.update("nodes", "", cluster.node("a2", zone="b"))
    cluster.settle()
    moved = cluster.ask("a2", address)
    cluster.api.update("nodes", "", cluster.node("a2"))
    cluster.settle()

    assert (moved, cluster.ask("a2", address)) == ("b1-2", "a1-2")


def test_proxy_explains_its_decisions(cluster: Cluster) -> None:
    name = cluster.service("a1-2 zone=a", "b1-2")["metadata"]["name"]

    explained = cluster.proxies["a1"].explain("default", name)

    assert explained.startswith("node a1, zone a\n")
    pod = cluster.hosts["b1-2"].addresses["IPv4"]
    assert f"hints set aside: endpoint {pod} has no zone hint" in explained
    assert "does not exist" in cluster.proxies["a1"].explain("default", "nobody")
    assert f"default/{name}:tcp/TCP IPv4" in cluster.proxies["a1"].decisions()


def test_ruleset_is_available_as_text(cluster: Cluster) -> None:
    address = cluster_ip(cluster.service("a1-2"), "IPv6")

    text = cluster.proxies["a1"].ruleset_text()

    assert "table ip trafficdist {" in text
    assert f"{address} . tcp . 80 : 0x00000001" in text


@pytest.mark.parametrize("affinity", ["None", "ClientIP"])
def test_restarted_proxy_replaces_old_rules_without_loss(cluster: Cluster, affinity: str) -> None:
    service, client = cluster.service("a1-2", "b1-2", sessionAffinity=affinity), cluster.hosts["a1-3"].namespace
    every = [(protocol, cluster_ip(service, family)) for protocol in ("TCP", "UDP") for family in FAMILIES]

    recording = cluster.loop.every(0.004, [Probe(client, protocol, address, 80) for protocol, address in every])
    for _ in range(8):
        cluster.proxies["a1"].stop()
        cluster.start_proxy("a1")
        cluster.settle()
    samples = recording.stop()

    assert {type(each.observation) for each in samples} == {Reached}


def test_a_proxy_takes_over_from_one_of_another_version_without_loss(cluster: Cluster) -> None:
    """The other version has the same hooks but other maps, under the same names."""
    if shutil.which("nft") is None:
        pytest.skip("unavailable: no nft binary")
    service, pod = cluster.service("b1-2"), cluster.hosts["b1-2"].addresses["IPv4"]
    address = cluster_ip(service, "IPv4")
    old = f"""table ip NAME {{ map services {{ type ipv4_addr : ipv4_addr; elements = {{ {address} : {pod} }}; }}
        chain nat {{ type nat hook prerouting priority -100; tcp dport 80 dnat to ip daddr map @services:8080; }}
        chain hide {{ type nat hook postrouting priority 100; }}
    }}
    """
    steps = (f"{old.replace('NAME', 'other')}", f"delete table ip trafficdist\n{old.replace('NAME', 'trafficdist')}")
    probe = Probe(cluster.hosts["a1-3"].namespace, "TCP", address, 80)
    cluster.proxies["a1"].stop()

    recording = cluster.loop.every(0.001, [probe] * 4)
    for _ in range(5):
        for step in (*steps, "delete table ip other\n"):
            with cluster.hosts["a1"].namespace.entered():
                subprocess.run(["nft", "-f", "-"], input=step, text=True, check=True)
        cluster.start_proxy("a1")
        cluster.settle()
        cluster.proxies["a1"].stop()
    samples = recording.stop()
    cluster.start_proxy("a1")
    cluster.settle()

    assert {type(each.observation) for each in samples} == {Reached}


@contextmanager
def repeating(action: Callable[[], object]) -> Iterator[None]:
    """Repeat an action in a background thread, and raise its errors in the calling thread."""
    finished = threading.Event()

    def repeat() -> None:
        while not finished.is_set():
            action()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(repeat)
        try:
            yield
        finally:
            finished.set()
        running.result(timeout=20)


LISTS = (("a1-2",), ("a1-2", "b1-2"), ("b1-2",), ("a2-2", "b1-2"), ("a1-2", "a2-2", "b1-2"), ("a2-2", "a1-2"))


@pytest.mark.parametrize("family", FAMILIES)
def test_no_connection_is_lost_while_endpoints_change(cluster: Cluster, family: str) -> None:
    service = cluster.service("a1-2")
    probe = Probe(cluster.hosts["a1-3"].namespace, "TCP", cluster_ip(service, family), 80)
    lists = itertools.cycle(LISTS)

    with repeating(lambda: cluster.endpoints(service, *next(lists))):
        outcomes = cluster.loop.probe([probe] * 2000)

    assert {type(each) for each in outcomes} == {Reached}


def test_rules_that_change_lose_no_datagram(cluster: Cluster) -> None:
    """The proxy deletes no connections here, because a deletion can cut off the reply of a removed endpoint."""
    table, service = Table("IPv4"), ServiceAddress("10.96.88.1", "UDP", 80)
    endpoints = [tuple((cluster.hosts[pod].addresses["IPv4"], 8080) for pod in pods) for pods in LISTS]
    lists = itertools.cycle(PortEntries({service: each}, {}, frozenset()) for each in endpoints)
    cluster.proxies["a1"].stop()
    with cluster.hosts["a1"].namespace.entered():
        nft = NftSocket()
    kernel = KernelTable(nft, "IPv4")
    kernel.load(table.ruleset(("10.244.0.0/16",), ("10.244.1.0/24",)))

    def change() -> None:
        table.put("web", next(lists))
        for changes in table.take_changes():
            kernel.apply(changes)

    change()
    with repeating(change):
        outcomes = cluster.loop.probe([Probe(cluster.hosts["a1-3"].namespace, "UDP", service.address, 80)] * 4000)
    nft.close()
    cluster.start_proxy("a1")
    cluster.settle()

    assert {type(each) for each in outcomes} == {Reached}


def test_active_udp_client_is_moved_when_its_endpoint_is_removed(cluster: Cluster) -> None:
    service = cluster.service("a1-2")
    stream = cluster.loop.connect(Probe(cluster.hosts["a1-3"].namespace, "UDP", cluster_ip(service, "IPv4"), 80))
    before = stream.ask()

    cluster.endpoints(service, "b1-2")
    after = stream.ask()
    stream.close()

    address = cluster.hosts["a1-3"].addresses["IPv4"]
    assert (before, after) == (Reached("a1-2", address), Reached("b1-2", address))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_udp_client_that_is_older_than_the_rules_is_moved_when_its_endpoint_leaves(
    cluster: Cluster, family: str
) -> None:
    service = cluster.service("a1-2")
    stream = cluster.loop.connect(Probe(cluster.hosts["a1-3"].namespace, "UDP", cluster_ip(service, family), 80))
    before = stream.ask()
    cluster.proxies["a1"].stop()
    cluster.start_proxy("a1")
    cluster.settle()

    meanwhile = stream.ask()
    cluster.endpoints(service, "b1-2")
    after = stream.ask()
    stream.close()

    address = cluster.hosts["a1-3"].addresses[family]
    assert (before, meanwhile) == (Reached("a1-2", address), Reached("a1-2", address))
    assert after == Reached("b1-2", address)


@pytest.mark.parametrize("family", FAMILIES)
def test_records_of_udp_connections_are_removed_with_their_endpoint(cluster: Cluster, family: str) -> None:
    with cluster.hosts["a1"].namespace.entered():
        nft = NftSocket()

    def notes() -> set[bytes]:
        return set(read_back(nft, family, "tags") or ())

    service = cluster.service("a1-2")
    probe = Probe(cluster.hosts["a1-3"].namespace, "UDP", cluster_ip(service, family), 80)
    before = notes()
    cluster.loop.probe([probe] * 3)
    (note,) = notes() - before

    cluster.endpoints(service, "b1-2")

    eventually(lambda: note not in notes(), describe="the note to go", every=0.005)
    nft.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_udp_client_loses_no_query_while_its_endpoint_goes_gracefully_and_comes_back(
    cluster: Cluster, family: str
) -> None:
    """A proxy that deletes connections immediately loses about twenty of 1,200 queries.

    The test allows one lost query. On a busy machine, five of 524 trials lost one query for an unknown reason.
    """
    service = cluster.service("a1-2", "b1-2")
    probe = Probe(cluster.hosts["a1-3"].namespace, "UDP", cluster_ip(service, family), 80)
    streams = [cluster.loop.connect(probe) for _ in range(8)]
    lists = itertools.cycle([("a1-2 terminating", "b1-2"), ("b1-2",), ("a1-2", "b1-2"), ("a1-2",)])

    with repeating(lambda: cluster.endpoints(service, *next(lists))):
        seen = [type(stream.ask()) for _ in range(150) for stream in streams]

    assert len(seen) - seen.count(Reached) <= 1
    for stream in streams:
        stream.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_no_query_of_a_new_port_is_lost_while_its_endpoint_goes_gracefully_and_comes_back(
    cluster: Cluster, family: str
) -> None:
    service = cluster.service("a1-2", "b1-2")
    probe = Probe(cluster.hosts["a1-3"].namespace, "UDP", cluster_ip(service, family), 80)
    lists = itertools.cycle([("a1-2 terminating", "b1-2"), ("b1-2",), ("a1-2", "b1-2"), ("a1-2",)])

    with repeating(lambda: cluster.endpoints(service, *next(lists))):
        outcomes = cluster.loop.probe([probe] * 2000)

    assert {type(each) for each in outcomes} == {Reached}


def test_a_udp_client_that_came_before_the_service_is_served_once_it_exists(cluster: Cluster) -> None:
    address = "10.96.77.1"
    probe = Probe(cluster.hosts["a1-3"].namespace, "UDP", address, 80, timeout=0.2)
    stream = cluster.loop.connect(probe)
    stream.ask()

    cluster.service("a1-2", clusterIP=address, ipFamilyPolicy="SingleStack")

    eventually(lambda: isinstance(stream.ask(), Reached), describe="an answer", every=0.01)
    stream.close()


def test_a_deleted_service_leaves_no_rule(cluster: Cluster) -> None:
    service = cluster.service("a1-2")
    name, address = service["metadata"]["name"], cluster_ip(service, "IPv4")
    assert address in cluster.proxies["a1"].ruleset_text()

    cluster.api.delete("services", "default", name)
    cluster.settle()

    assert address not in cluster.proxies["a1"].ruleset_text()


def test_kernel_error_causes_a_full_reload(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    service = cluster.service("a1-2")
    with cluster.hosts["a1"].namespace.entered():
        intruder = NftSocket()
    intruder.commit(messages("IPv4").delete_table())
    intruder.close()
    assert cluster.proxies["a1"].last_error is None

    with caplog.at_level(logging.ERROR):
        cluster.endpoints(service, "b1-2")

    assert "the kernel refused the rules" in caplog.text
    assert cluster.proxies["a1"].last_error is not None
    assert cluster.ask("a1-3", cluster_ip(service, "IPv4")) == "b1-2"


def test_cleanup_removes_the_rules(node: Namespace, nft: NftSocket) -> None:
    with node.entered():
        proxy = ServiceProxy("a1", ApiServer(), pod_cidrs=["10.244.0.0/16"])
    proxy.start()
    eventually(proxy.synced, describe="the proxy")
    loaded = read_back(nft, "IPv4", "services")

    proxy.stop()
    left = read_back(nft, "IPv4", "services")
    with node.entered():
        successor = ServiceProxy("a1", ApiServer(), pod_cidrs=["10.244.0.0/16"])
    successor.cleanup()
    successor.stop()

    assert (loaded, left, read_back(nft, "IPv4", "services")) == ({}, {}, None)


def test_rules_remain_during_an_api_server_outage_and_are_updated_afterwards(cluster: Cluster) -> None:
    """A second proxy in the same cluster. The other proxies keep their own API server."""
    kept, changed, gone = (cluster.service("a1-2", ipFamilyPolicy="SingleStack") for _ in range(3))
    client = ReconnectingClient(cluster.api)
    cluster.proxies["a1"].stop()
    cluster.proxies["a1"] = proxy = cluster.start_proxy("a1", client)
    cluster.settle()
    client.disconnect()

    cluster.api.delete("services", "default", gone["metadata"]["name"])
    del cluster.proxies["a1"]
    cluster.endpoints(changed, "b1-2")
    away = [cluster.ask("a1-3", cluster_ip(each, "IPv4")) for each in (kept, changed, gone)]
    probe = Probe(cluster.hosts["a1-3"].namespace, "TCP", cluster_ip(kept, "IPv4"), 80)
    recording = cluster.loop.every(0.001, [probe])
    client.connect(cluster.api)
    cluster.proxies["a1"] = proxy
    cluster.settle()

    assert {each.observation for each in recording.stop()} == {Reached("a1-2", cluster.hosts["a1-3"].addresses["IPv4"])}
    assert away == ["a1-2", "a1-2", "a1-2"]
    assert cluster.ask("a1-3", cluster_ip(changed, "IPv4")) == "b1-2"
    assert cluster_ip(gone, "IPv4") not in proxy.ruleset_text()


def test_a_proxy_without_its_node_object_serves_cluster_ips(node: Namespace) -> None:
    api = ApiServer()
    with node.entered():
        proxy = ServiceProxy("nowhere", api, pod_cidrs=["10.244.0.0/16"])
    proxy.start()
    service = api.create("services", "default", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
    eventually(proxy.synced, describe="the proxy")

    assert f"{service['spec']['clusterIP']} . tcp . 80 : 0x00004000" in proxy.ruleset_text()
    proxy.stop()


def test_a_refusal_becomes_a_route_when_the_first_endpoint_comes(cluster: Cluster) -> None:
    service = cluster.service()
    address = cluster_ip(service, "IPv4")
    assert cluster.ask("a1-3", address, protocol="UDP") == REFUSED

    cluster.endpoints(service, "b1-2")

    assert cluster.ask("a1-3", address, protocol="UDP") == "b1-2"
