"""Fields of an existing Service that define its addresses: ports, node ports, type, external addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.features import (
    CLUSTER_IP,
    EXTERNAL_IPS,
    IPV6_SERVICES,
    LOAD_BALANCER,
    NODE_PORT,
    UDP_SERVICES,
)
from conformance.live_changes.snapshots import NOBODY, as_now, by_all, expect_now, give_node_port, ports_of
from trafficdist import (
    MUST,
    NO_ANSWER,
    AddressKind,
    Cluster,
    ExpectedTraffic,
    Pod,
    Port,
    Service,
    Traffic,
    endpoint,
    expect_no_loss,
    external_client,
    placeless,
    requirement,
)

WEB, OTHER, QUERIES = Port(80, name="web"), Port(81, name="other"), Port(53, "UDP", "queries")
MOVED_WEB, MOVED_QUERIES, MORE = Port(8080, name="web"), Port(5353, "UDP", "queries"), Port(90, name="more")


@requirement(
    "CHANGES/ports-of-a-service",
    "An existing Service answers on a port that is added or renumbered, and no longer on the old number or on a "
    "removed port; no connection to an unchanged port of the Service is lost.",
    level=MUST,
    features={CLUSTER_IP, UDP_SERVICES},
    source="core/v1 ServicePort.port (the port that will be exposed by this service)",
    kills={"ports-are-frozen"},
    fixes={"address=node-port": "the node port does not depend on the number that changes"},
)
def test_ports_of_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service(ports=[WEB, OTHER, QUERIES])
    pods = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [placeless(each) for each in pods], ports=[WEB, OTHER, QUERIES, MORE])
    first = [as_now(service, port) for port in (WEB, QUERIES)]
    moved = [as_now(service, port) for port in (MOVED_WEB, MOVED_QUERIES, MORE)]

    def expect_ports(present: list[Service], absent: list[Service]) -> None:
        answers = [ExpectedTraffic(_port(each), each, by_all(*pods)) for each in [*present, as_now(service, OTHER)]]
        expect_now(three_zones, *answers, *(ExpectedTraffic(_port(each), each, NOBODY) for each in absent))

    expect_ports(first, [])
    with expect_no_loss(three_zones, service, from_=["a2", "c1"], allowed=set(pods), port=OTHER):
        three_zones.patch_service(service, ports_of([MOVED_WEB, OTHER, MOVED_QUERIES, MORE]))
        expect_ports(moved, first)
        three_zones.patch_service(service, ports_of([WEB, OTHER, QUERIES]))
        expect_ports(first, moved)


def _port(service: Service) -> str:
    return f"port {service.ports[0].port}/{service.ports[0].protocol}"


@requirement(
    "CHANGES/port-names-of-a-service",
    "When two ports of an existing Service swap numbers and node ports, or a port is renamed, connections to each "
    "number or node port go to the endpoints of the port that now has this number or node port.",
    level=MUST,
    features={CLUSTER_IP, NODE_PORT},
    source="core/v1 ServicePort.name (must match the 'name' field in the EndpointPort), port, nodePort",
    kills={"former-owner-takes-addresses-along"},
)
def test_port_names_of_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", ports=[WEB, OTHER])
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)], name="first", ports=[WEB])
    three_zones.publish(service, [endpoint(b1)], name="second", ports=[OTHER])
    at_80, at_81 = as_now(service, WEB), as_now(service, OTHER)
    node_ports = {80: service.node_port(WEB), 81: service.node_port(OTHER)}

    def expect_behind(told: str, behind_80: Pod, behind_81: Pod) -> None:
        questions = []
        for at, pod in ((at_80, behind_80), (at_81, behind_81)):
            questions += [
                ExpectedTraffic(f"{_port(at)}, {told}", at, by_all(pod)),
                ExpectedTraffic(
                    f"node port of {_port(at)}, {told}", at, {external_client("a2"): {pod}}, to="node-port"
                ),
            ]
        expect_now(three_zones, *questions)

    def name_ports(names: Mapping[int, str]) -> None:
        named = [{**Port(at, name=name).manifest(), "nodePort": node_ports[at]} for at, name in names.items()]
        three_zones.patch_service(service, {"spec": {"ports": named}})

    expect_behind("as created", a1, b1)
    name_ports({80: "other", 81: "web"})
    expect_behind("ports other and web", b1, a1)
    name_ports({80: "renamed", 81: "other"})
    three_zones.publish(service, [endpoint(a1)], name="first", ports=[Port(80, name="renamed")])
    expect_behind("ports renamed and other", a1, b1)


@requirement(
    "CHANGES/node-port-of-a-service",
    "An existing Service answers on a new node port, including one that a deleted Service had, and no longer on its "
    "old one; no connection to its cluster IP is lost.",
    level=MUST,
    features={NODE_PORT},
    source="core/v1 ServicePort.nodePort (the port on each node on which this service is exposed)",
    kills={"freezes-node-ports"},
)
def test_node_port_of_a_live_service(three_zones: Cluster) -> None:
    service, gone = three_zones.create_service(type="NodePort"), three_zones.create_service(type="NodePort")
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    three_zones.publish(service, [placeless(a1), placeless(b1)])
    three_zones.publish(gone, [placeless(c1)])
    first = as_now(service)
    answer: Traffic = {external_client("a2"): {a1, b1}, "c1": {a1, b1}}
    nothing: Traffic = dict.fromkeys(answer, NO_ANSWER)
    expect_now(
        three_zones,
        ExpectedTraffic("the first number", first, answer, to="node-port"),
        ExpectedTraffic("the number of another Service", gone, by_all(c1, of=answer), to="node-port"),
    )

    three_zones.delete_service(gone)
    with expect_no_loss(three_zones, service, from_=["a2", "c1"], allowed={a1, b1}):
        give_node_port(three_zones, service, like=gone)
        second = as_now(service)
        expect_now(
            three_zones,
            ExpectedTraffic("the second number", second, answer, to="node-port"),
            ExpectedTraffic("the first number", first, nothing, to="node-port"),
        )
        give_node_port(three_zones, service, like=first)
        expect_now(
            three_zones,
            ExpectedTraffic("the first number", service, answer, to="node-port"),
            ExpectedTraffic("the second number", second, nothing, to="node-port"),
        )


@requirement(
    "CHANGES/type-of-a-service",
    "An existing Service answers on a node port while its type is NodePort, and nowhere while it is ExternalName; no "
    "connection to its cluster IP is lost when the type changes between ClusterIP and NodePort.",
    level=MUST,
    features={CLUSTER_IP, NODE_PORT},
    source="core/v1 ServiceSpec.type (how the Service is exposed); externalName (no proxying will be involved)",
    kills={"type-is-frozen", "external-name-keeps-rules", "external-name-keeps-what-is-outside"},
    fixes={"family": "the API server forgets the families of an ExternalName Service"},
)
def test_type_of_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [placeless(a1), placeless(b1)])
    inside = as_now(service)
    expect_now(three_zones, ExpectedTraffic("ClusterIP", inside, by_all(a1, b1)))

    with expect_no_loss(three_zones, service, from_=["a2", "c1"], allowed={a1, b1}):
        three_zones.patch_service(service, {"spec": {"type": "NodePort"}})
        exposed = as_now(service)
        outside: Traffic = {external_client("a2"): {a1, b1}}
        expect_now(three_zones, ExpectedTraffic("node port as NodePort", exposed, outside, to="node-port"))
        three_zones.patch_service(service, {"spec": {"type": "ClusterIP"}})
        nothing: Traffic = {external_client("a2"): NO_ANSWER}
        expect_now(three_zones, ExpectedTraffic("node port as ClusterIP", exposed, nothing, to="node-port"))

    three_zones.patch_service(service, {"spec": {"type": "NodePort"}})
    exposed = as_now(service)
    expect_now(three_zones, ExpectedTraffic("node port as NodePort again", exposed, outside, to="node-port"))
    three_zones.patch_service(service, {"spec": {"type": "ExternalName", "externalName": "web.example.org"}})
    expect_now(
        three_zones,
        ExpectedTraffic("cluster IP as ExternalName", inside, NOBODY),
        ExpectedTraffic("node port as ExternalName", exposed, nothing, to="node-port"),
    )
    three_zones.patch_service(service, {"spec": {"type": "ClusterIP", "externalName": None}})
    expect_now(three_zones, ExpectedTraffic("ClusterIP again", service, by_all(a1, b1)))


@requirement(
    "CHANGES/load-balancer-type-of-a-service",
    "An existing Service answers at its load balancer address and node port while its type is LoadBalancer, and not "
    "while it is ClusterIP or ExternalName; no connection to its cluster IP is lost when the type changes between "
    "ClusterIP and LoadBalancer.",
    level=MUST,
    features={LOAD_BALANCER, NODE_PORT},
    source="core/v1 ServiceSpec.type (how the Service is exposed)",
    kills={"type-is-frozen", "external-name-keeps-what-is-outside"},
)
def test_load_balancer_type_of_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="LoadBalancer")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [placeless(a1), placeless(b1)])
    balanced = as_now(service)
    answer: Traffic = {external_client("a2"): {a1, b1}, external_client("c1"): {a1, b1}}
    nothing: Traffic = dict.fromkeys(answer, NO_ANSWER)

    def expect_outside(what: str, at: Service, seen: Traffic) -> None:
        expect_now(
            three_zones,
            ExpectedTraffic(f"load balancer address as {what}", at, seen, to="load-balancer"),
            ExpectedTraffic(f"node port as {what}", at, seen, to="node-port"),
        )

    expect_outside("LoadBalancer", balanced, answer)
    with expect_no_loss(three_zones, service, from_=["a2", "c1"], allowed={a1, b1}):
        three_zones.patch_service(service, {"spec": {"type": "ClusterIP"}})
        _set_addresses(three_zones, service, "load-balancer", [])
        expect_outside("ClusterIP", balanced, nothing)
        three_zones.patch_service(service, {"spec": {"type": "LoadBalancer"}})
        _set_addresses(three_zones, service, "load-balancer", ["a2", "c1"])
        expect_outside("LoadBalancer again", service, answer)

    balanced = as_now(service)
    three_zones.patch_service(service, {"spec": {"type": "ExternalName", "externalName": "web.example.org"}})
    expect_outside("ExternalName", balanced, nothing)


@requirement(
    "CHANGES/load-balancer-addresses-of-a-service",
    "A Service stops answering at an address removed from status.loadBalancer, and another Service that gets the "
    "address answers there; no connection to the first Service's other addresses is lost.",
    level=MUST,
    features={LOAD_BALANCER},
    source="core/v1 LoadBalancerStatus.ingress (ingress points for the load-balancer)",
    kills={"freezes-ingress"},
)
def test_load_balancer_addresses_of_a_live_service(three_zones: Cluster) -> None:
    _hand_an_address_over(three_zones, "load-balancer", type="LoadBalancer")


@requirement(
    "CHANGES/external-ips-of-a-service",
    "A Service stops answering at an address removed from spec.externalIPs, and another Service that gets the address "
    "answers there; no connection to the first Service's other addresses is lost.",
    level=MUST,
    features={EXTERNAL_IPS},
    source="core/v1 ServiceSpec.externalIPs (addresses for which nodes accept traffic for this service)",
    kills={"freezes-external-ips"},
)
def test_external_ips_of_a_live_service(three_zones: Cluster) -> None:
    _hand_an_address_over(three_zones, "external-ip", external_ips=True)


def _hand_an_address_over(cluster: Cluster, kind: AddressKind, **fields: Any) -> None:
    giving, taking = cluster.create_service(**fields), cluster.create_service(**fields)
    a1, b1 = cluster.run_servers(on=["a1", "b1"])
    cluster.publish(giving, [endpoint(a1)])
    cluster.publish(taking, [endpoint(b1)])
    at_a1, at_c1 = external_client("a1"), external_client("c1")
    handed = giving.virtual[kind, "a1"]
    expect_now(
        cluster,
        ExpectedTraffic("before", giving, {at_a1: {a1}, at_c1: {a1}}, to=kind),
        ExpectedTraffic("another Service", taking, {at_a1: {b1}, at_c1: {b1}}, to=kind),
    )

    with expect_no_loss(cluster, giving, from_=[at_c1], allowed={a1}, to=kind):
        _set_addresses(cluster, giving, kind, ["c1"])
        expect_now(cluster, ExpectedTraffic("taken away", giving, {at_a1: NO_ANSWER, at_c1: {a1}}, to=kind))
        _set_addresses(cluster, taking, kind, ["a1", "c1"], handed)
        expect_now(cluster, ExpectedTraffic("in other hands", giving, {at_a1: {b1}, at_c1: {a1}}, to=kind))
        _set_addresses(cluster, taking, kind, ["a1", "c1"])
        _set_addresses(cluster, giving, kind, ["a1", "c1"])
        expect_now(
            cluster,
            ExpectedTraffic("back", giving, {at_a1: {a1}, at_c1: {a1}}, to=kind),
            ExpectedTraffic("another Service", taking, {at_a1: {b1}, at_c1: {b1}}, to=kind),
        )


def _set_addresses(cluster: Cluster, service: Service, kind: AddressKind, nodes: list[str], *others: Any) -> None:
    """Set a Service's load balancer IPs or external IPs to those that are routed to `nodes`, plus `others`."""
    addresses = [ip for each in [*(service.virtual[kind, node] for node in nodes), *others] for ip in each.values()]
    if kind == "external-ip":
        cluster.patch_service(service, {"spec": {"externalIPs": addresses}})
    else:
        cluster.set_ingress(service, addresses)


@requirement(
    "CHANGES/released-address-of-a-family",
    "When a dual-stack Service becomes single-stack, a new Service that gets the released cluster IP answers there "
    "with its own endpoints, and the first Service answers at its remaining cluster IP, although EndpointSlices of "
    "both families remain.",
    level=MUST,
    features={CLUSTER_IP, IPV6_SERVICES},
    source="core/v1 ServiceSpec.clusterIPs (addresses assigned to this Service) and ipFamilies (removing a family)",
    kills={"removed-families-stay"},
    fixes={"family": "the sentence is about both families"},
)
def test_released_address_of_a_family(three_zones: Cluster) -> None:
    service = three_zones.create_service(dual_stack=True)
    first, second = service.object["spec"]["ipFamilies"]
    kept, released = service.object["spec"]["clusterIPs"]
    old, new = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(old)])
    expect_now(
        three_zones, *(ExpectedTraffic(family, service, by_all(old), family=family) for family in (first, second))
    )

    fields = {"ipFamilyPolicy": "SingleStack", "ipFamilies": [first], "clusterIPs": [kept]}
    three_zones.patch_service(service, {"spec": fields})
    heir = three_zones.create_service(ipFamilies=[second], clusterIP=released, clusterIPs=[released])
    three_zones.publish(heir, [endpoint(new)])
    expect_now(
        three_zones,
        ExpectedTraffic("the released address", heir, by_all(new), family=second),
        ExpectedTraffic("the kept address", service, by_all(old), family=first),
    )
