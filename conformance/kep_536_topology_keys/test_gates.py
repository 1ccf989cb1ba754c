"""KEP-536: the ServiceTopology gate in the API server and the proxy, and end-to-end routing from the API to packets."""

from __future__ import annotations

import pytest

from conformance.features import API_SERVER_RELEASES, CLUSTER_IP, PROXY_RELEASES, TOPOLOGY_KEYS, TOPOLOGY_KEYS_FIELD
from conformance.features import TOPOLOGY_KEYS_ROUTING as ROUTING
from conformance.kep_536_topology_keys.topology import (
    ANY,
    GATE,
    HOST,
    RACK,
    ZONE,
    begin,
    change_keys,
    create,
    expect_reached,
)
from conformance.kep_4444_traffic_distribution.test_validation import expect_stored
from trafficdist import (
    API_SERVER,
    MUST,
    PROXY,
    Cluster,
    Release,
    requirement,
)

GRADUATION = "KEP-536, Graduation Criteria (enabled by ServiceTopology feature gate)"
ON, OFF = Release(gates={GATE: True}), Release(gates={GATE: False})
RELEASED_ON, RELEASED_OFF = Release("1.21", {GATE: True}), Release("1.21", {GATE: False})
WEB = {"app": "web"}
EVERYBODY = {"a1": "a1 a2 b1", "b2": "a1 a2 b1", "c1": "a1 a2 b1"}
BY_HOST = {"a1": "a1", "b2": "", "c1": ""}


@requirement(
    "KEP-536/proxy-gate-off-ignores-keys",
    "With the ServiceTopology gate disabled (the default), a proxy ignores the topology keys that a Service has.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS, PROXY_RELEASES},
    source=GRADUATION,
    kills={"topology-keys-need-no-gate"},
)
@pytest.mark.parametrize("how", [Release("1.21"), OFF], ids=str)
def test_proxy_ignores_keys_while_its_gate_is_off(three_zones: Cluster, how: Release) -> None:
    begin(three_zones, API_SERVER)
    three_zones.restart(PROXY, how)
    service, pods = create(three_zones, HOST)

    expect_reached(three_zones, service, pods, EVERYBODY)


@requirement(
    "KEP-536/proxy-gate-on-and-off-again",
    "A proxy follows the topology keys of existing Services while the ServiceTopology gate is enabled, including "
    "in Kubernetes 1.21, and ignores them once the gate is disabled again.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS, PROXY_RELEASES},
    source=GRADUATION,
    kills={"newest-proxy-at-any-release", "ignores-topology-keys"},
)
def test_gate_of_the_proxy_is_switched(three_zones: Cluster) -> None:
    begin(three_zones, API_SERVER)
    service, pods = create(three_zones, HOST)
    for how, reached in (
        (ON, BY_HOST),
        (RELEASED_ON, BY_HOST),
        (RELEASED_OFF, EVERYBODY),
    ):
        three_zones.restart(PROXY, how)
        expect_reached(three_zones, service, pods, reached)


@requirement(
    "KEP-536/api-gate-off-drops-the-keys",
    "With the ServiceTopology gate disabled, a new Service is stored without topology keys, and an update does not "
    "add keys to a Service that has none.",
    level=MUST,
    features={API_SERVER_RELEASES, TOPOLOGY_KEYS_FIELD},
    source=GRADUATION,
    kills={"stores-topology-keys-without-the-gate"},
)
@pytest.mark.parametrize("version", ["1.21", ""])
def test_keys_are_dropped_while_the_gate_is_off(three_zones: Cluster, version: str) -> None:
    three_zones.restart(API_SERVER, Release(version, {GATE: False}))
    service = three_zones.create_service(topologyKeys=[HOST])
    expect_stored(three_zones, service.name, "topologyKeys", None)

    change_keys(three_zones, service, ZONE)
    expect_stored(three_zones, service.name, "topologyKeys", None)


@requirement(
    "KEP-536/api-gate-off-keeps-stored-keys",
    "With the ServiceTopology gate disabled, an update keeps the topology keys that a Service already has, unless the "
    "update removes them.",
    level=MUST,
    features={API_SERVER_RELEASES, TOPOLOGY_KEYS_FIELD},
    source=f"{GRADUATION}; the way of Kubernetes with fields behind gates",
    as_="released",
    kills={"drops-stored-topology-keys"},
)
def test_stored_keys_outlive_the_gate(three_zones: Cluster) -> None:
    three_zones.restart(API_SERVER, ON)
    service = three_zones.create_service(topologyKeys=[HOST])
    three_zones.restart(API_SERVER, OFF)

    three_zones.patch_service(service, {"metadata": {"labels": {"changed": "yes"}}})
    expect_stored(three_zones, service.name, "topologyKeys", [HOST])
    change_keys(three_zones, service)
    expect_stored(three_zones, service.name, "topologyKeys", None)


@requirement(
    "KEP-536/keys-reach-the-packets",
    "When the API server stores topology keys and a controller writes the slices of a Service, traffic follows the "
    "keys, with and without a final *, in each IP family.",
    level=MUST,
    features={ROUTING},
    source="KEP-536, Test Plan (E2E tests with hard constraint and soft constraints using EndpointSlice)",
    kills={"ignores-topology-keys", "topology-keys-are-soft"},
)
def test_keys_decide_where_packets_go(three_zones: Cluster) -> None:
    begin(three_zones)
    pods = {pod.node: pod for pod in three_zones.run_servers(["a1", "a2", "b1"], labels=WEB)}
    for family in three_zones.families:
        hard = three_zones.create_service(selector=WEB, topologyKeys=[HOST, RACK], ipFamilies=[family])
        soft = three_zones.create_service(selector=WEB, topologyKeys=[HOST, ANY], ipFamilies=[family])

        expect_reached(three_zones, hard, pods, {"a1": "a1", "b1": "b1", "b2": "", "c1": ""}, family=family)
        expect_reached(three_zones, soft, pods, {"a1": "a1", "b1": "b1", "c1": "a1 a2 b1"}, family=family)


@requirement(
    "KEP-536/each-proxy-decides-for-its-own-node",
    "Proxies with the ServiceTopology gate enabled follow topology keys while proxies with the gate disabled use "
    "every endpoint.",
    level=MUST,
    features={ROUTING},
    source="KEP-536, Kube-proxy changes (kube-proxy on different nodes may create different proxy rules)",
    kills={"newest-proxy-at-any-release", "topology-keys-need-no-gate"},
)
def test_gate_is_on_in_some_proxies(three_zones: Cluster) -> None:
    begin(three_zones, API_SERVER)
    three_zones.restart(PROXY, ON, on=["a1", "b2"])
    three_zones.restart(PROXY, OFF, on=["a2", "b1", "c1"])
    service = three_zones.create_service(selector=WEB, topologyKeys=[HOST])
    pods = {pod.node: pod for pod in three_zones.run_servers(["a1", "a2", "b1"], labels=WEB)}

    expect_reached(three_zones, service, pods, EVERYBODY | {"a1": "a1", "a2": "a1 a2 b1", "b2": ""})
    three_zones.restart(PROXY, ON)
    expect_reached(three_zones, service, pods, {"a2": "a2", **BY_HOST})
