"""Drawn events and ways of asking really happen, and leave the objects of the scenario as they were."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from harness.backends.netns import NetnsBackend
from harness.errors import UsageError
from harness.judging.history import History
from harness.model.manifests import TCP, Port
from harness.model.release import CONTROLLER, PROXY
from harness.model.topology import ONE_ZONE, ZONE_LABEL
from harness.scenario.cluster import Cluster
from harness.scenario.dns_answers import expect_dns_pods
from harness.scenario.service import endpoint
from harness.scenario.service_address import service_address
from harness.scenario.traffic import expect_traffic
from harness.variation.axes import parse_draw
from reference.client import Event

NUMBERS = itertools.count(1)
WATCHED = ("nodes", "services", "endpointslices")


@pytest.fixture(scope="module")
def backend(netns_allowed: None) -> Iterator[NetnsBackend]:
    with NetnsBackend(ONE_ZONE) as booted:
        yield booted


@pytest.fixture
def drawn(backend: NetnsBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cluster]]:
    """Return a function that creates a cluster with a draw."""
    with ExitStack() as stack:

        def create(draw: str) -> Cluster:
            history = stack.enter_context(closing(History(tmp_path_factory.mktemp("history") / "run.jsonl")))
            name = f"drawn-{next(NUMBERS)}"
            made = Cluster(backend, name, history=history, test="test", draw=parse_draw(draw))
            return stack.enter_context(closing(made))

        yield create


@pytest.fixture
def events(backend: NetnsBackend) -> Iterator[list[tuple[str, str, str]]]:
    """Record the type, the resource and the zone of each event that components receive, after the first list."""
    heard: list[tuple[str, str, str]] = []

    def hear(event: Event) -> None:
        labels = {} if event.type == "SYNCED" else event.object["metadata"].get("labels") or {}
        heard.append((event.type, event.resource, labels.get(ZONE_LABEL, "")))

    watch = backend.control_plane.client("test").subscribe(WATCHED, hear)  # type: ignore[attr-defined]
    heard.clear()
    yield heard
    watch.close()


def of(events: list[tuple[str, str, str]], *resources: str) -> list[tuple[str, str]]:
    return [(kind, resource) for kind, resource, _ in events if resource in resources]


def publish(cluster: Cluster, **wanted: object) -> None:
    service = cluster.create_service(**wanted)  # type: ignore[arg-type]
    (a1,) = cluster.run_servers(on=["a1"])
    cluster.publish(service, [endpoint(a1)], families=["IPv4"])
    expect_traffic(cluster, service, {"a1": {a1}, "a2": {a1}})


def test_slices_precede_their_service(drawn: Callable[[str], Cluster], events: list[tuple[str, str, str]]) -> None:
    publish(drawn("arrival=slices"), type="NodePort")
    assert of(events, "services", "endpointslices") == [
        ("ADDED", "services"),
        ("DELETED", "services"),
        ("ADDED", "endpointslices"),
        ("ADDED", "services"),
    ]


def test_service_that_is_created_again_keeps_its_addresses(drawn: Callable[[str], Cluster]) -> None:
    cluster = drawn("arrival=slices")
    service = cluster.create_service(type="LoadBalancer", external_ips=True)
    before = service.object
    cluster.publish(service, [])
    assert service.object["spec"] == before["spec"]
    assert service.object["status"]["loadBalancer"] == before["status"]["loadBalancer"]
    assert service.object["metadata"]["uid"] != before["metadata"]["uid"]


def test_nodes_get_their_zones_late(drawn: Callable[[str], Cluster], events: list[tuple[str, str, str]]) -> None:
    publish(drawn("nodes=late"))
    nodes = [(resource, zone) for _, resource, zone in events if resource != "services"]
    assert nodes == [("nodes", "")] * 2 + [("endpointslices", "")] + [("nodes", "a")] * 2


def test_first_node_is_created_again(drawn: Callable[[str], Cluster], events: list[tuple[str, str, str]]) -> None:
    publish(drawn("nodes=remade"))
    assert of(events, "nodes", "services") == [("DELETED", "nodes"), ("ADDED", "nodes"), ("ADDED", "services")]


def test_last_node_gets_its_addresses_and_then_its_pod_cidr_after_slices(
    drawn: Callable[[str], Cluster], backend: NetnsBackend, events: list[tuple[str, str, str]]
) -> None:
    last = backend.topology.nodes[-1].name
    before = backend.api.get("nodes", "", last)
    cluster = drawn("nodes=bare")
    publish(cluster)
    assert of(events, "nodes", "endpointslices") == [
        ("DELETED", "nodes"),
        ("ADDED", "nodes"),
        ("ADDED", "endpointslices"),
        ("MODIFIED", "nodes"),
        ("MODIFIED", "nodes"),
    ]
    assert "restart" in [each.what for each in cluster.history.changes]
    after = backend.api.get("nodes", "", last)
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])


def test_dns_server_is_restarted_at_its_addresses(drawn: Callable[[str], Cluster], backend: NetnsBackend) -> None:
    cluster = drawn("components=dns-restarted,queries=tcp")
    addresses = backend.dns()
    before = backend._dns
    service = cluster.create_service(clusterIP="None")
    (a1,) = cluster.run_servers(on=["a1"])
    cluster.publish(service, [endpoint(a1)])
    assert before is not None
    assert backend._dns is not None
    assert backend._dns[0] is not before[0]
    assert backend.dns() == addresses
    expect_dns_pods(cluster, service, {a1: {a1}})


def test_changes_happen_while_components_are_disconnected(
    drawn: Callable[[str], Cluster], events: list[tuple[str, str, str]]
) -> None:
    cluster = drawn("components=disconnected")
    service = cluster.create_service()
    (a1,) = cluster.run_servers(on=["a1"])
    for _ in range(3):  # the third change happens while components are connected
        cluster.publish(service, [endpoint(a1)], families=["IPv4"])
        expect_traffic(cluster, service, {"a2": {a1}})
        cluster.unpublish(service, families=["IPv4"])
    kinds = [kind for kind, resource in of(events, "endpointslices", "") if kind]
    assert kinds == ["ADDED", "SYNCED", "DELETED", "SYNCED", "ADDED", "DELETED", "ADDED", "DELETED"]


def test_components_are_restarted_once(
    drawn: Callable[[str], Cluster], backend: NetnsBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, list[str]]] = []
    start = backend.start_component

    def record(component, release, nodes):  # type: ignore[no-untyped-def]
        started.append((component, list(nodes)))
        start(component, release, nodes)

    monkeypatch.setattr(backend, "start_component", record)
    publish(drawn("components=restarted"))
    assert started == [(PROXY, ["a1"])]
    cluster = drawn("components=restarted")
    service = cluster.create_service(selector={"app": "web"})
    cluster.create_pod("p1", "a1", labels={"app": "web"})
    cluster.create_pod("p2", "a1", labels={"app": "web"})
    cluster.settle()
    assert started[1:] == [(CONTROLLER, ["a1"])]
    assert sum(len(each["endpoints"]) for each in cluster.slices(service)) == 2


def test_stopped_proxy_is_not_started(drawn: Callable[[str], Cluster], backend: NetnsBackend) -> None:
    cluster = drawn("components=restarted")
    cluster.stop(PROXY, on=["a1"])
    service = cluster.create_service()
    cluster.publish(service, [])
    assert backend.proxy.synced()
    assert cluster.backend.releases.current(PROXY, "a1") is None


def test_endpoints_are_clients_on_their_nodes(drawn: Callable[[str], Cluster], backend: NetnsBackend) -> None:
    cluster = drawn("client=endpoint")
    service = cluster.create_service()
    a1, other = cluster.run_servers(on=["a1", "a1"])
    cluster.publish(service, [endpoint(other)])
    paths = service_address(cluster, service).paths({"a1": {other}, "a2": {other}})
    assert [path.label for path in paths] == ["a1", "a2"]
    assert paths[0].place == backend.source_of(other)
    assert paths[0].place != backend.source_of(a1)
    assert paths[1].place not in (backend.source_of(a1), backend.source_of(other))
    expect_traffic(cluster, service, {"a1": {other}, "a2": {other}})


@pytest.mark.parametrize("kind", ["node-port", "external-ip"])
def test_clients_use_the_drawn_address_of_a_service_that_has_it(drawn: Callable[[str], Cluster], kind: str) -> None:
    cluster = drawn(f"address={kind}")
    service = cluster.create_service()
    assert service_address(cluster, service).to == kind
    assert service_address(cluster, service, to="cluster-ip").to == "cluster-ip"
    assert service_address(cluster, service, port=Port(81)).to == ("cluster-ip" if kind == "node-port" else kind)
    (a1,) = cluster.run_servers(on=["a1"])
    cluster.publish(service, [endpoint(a1)])
    expect_traffic(cluster, service, {"a2": {a1}})
    cluster.patch_service(service, {"spec": {"internalTrafficPolicy": "Local"}})
    assert service_address(cluster, service).to == "cluster-ip"
    for other in (cluster.create_service(clusterIP="None"), cluster.create_service(type="ClusterIP")):
        assert service_address(cluster, other).to == "cluster-ip"
    assert not {"load-balancer", "external-ips"} & {*cluster.needs().get("abilities", [])}


def test_endpoint_without_its_node_is_no_client(drawn: Callable[[str], Cluster], backend: NetnsBackend) -> None:
    cluster = drawn("client=endpoint")
    service = cluster.create_service()
    (a1,) = cluster.run_servers(on=["a1"])
    for node in (None, "a2"):
        cluster.publish(service, [endpoint(a1, node=node)])
        (path,) = service_address(cluster, service).paths({"a1": {a1}})
        assert path.place != backend.source_of(a1)


def test_services_use_udp_if_the_scenario_chooses_no_protocol(drawn: Callable[[str], Cluster]) -> None:
    cluster = drawn("protocol=udp,ports=more")
    service = cluster.create_service()
    assert [(port["protocol"], port["port"]) for port in service.object["spec"]["ports"]][:2] == [
        ("UDP", 80),
        ("TCP", 80),
    ]
    chosen = cluster.create_service(ports=[TCP])
    assert chosen.object["spec"]["ports"][0]["protocol"] == "TCP"


def test_first_client_keeps_a_connection_open(drawn: Callable[[str], Cluster], monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, object]] = []
    cluster = drawn("connections=long")
    monkeypatch.setattr(cluster, "expect_equal", lambda what, *, observed, **_: compared.append((what, observed)))
    publish(cluster)
    assert compared == [("server of the open connection of a1", "a1")]


def test_silence_needs_no_connection(drawn: Callable[[str], Cluster]) -> None:
    cluster = drawn("connections=long")
    with pytest.raises(UsageError, match="has not answered yet"):
        expect_traffic(cluster, cluster.create_service(), {})


def test_counted_components_restart_before_their_counters_are_read(drawn: Callable[[str], Cluster]) -> None:
    cluster = drawn("components=restarted")
    for name in ("p1", "p2"):
        cluster.begin_to_count(CONTROLLER)
        cluster.create_pod(name, "a1")
    changes = [each.what for each in cluster.history.changes]
    assert changes == ["restart", "create pod", "create pod"]
