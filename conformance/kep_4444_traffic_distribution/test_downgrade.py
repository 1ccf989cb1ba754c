"""KEP-4444, upgrade, downgrade and upgrade again while traffic flows: the manual test procedure of the KEP's authors.

The scenarios use the servers of `conformance.skew`. A step that changes routing has two checks: the endpoints that each
client reaches after the step, and the connections that were lost during the step.
"""

from __future__ import annotations

from conformance.features import ROLLOUT
from conformance.kep_4444_traffic_distribution.test_validation import expect_stored
from conformance.skew import CLIENTS, SERVERS, WEB, Skew, bring_to, expect_written, routes
from trafficdist import (
    API_SERVER,
    CONTROLLER,
    MUST,
    PROXY,
    SHOULD,
    Cluster,
    ExpectedTraffic,
    Pod,
    Port,
    Service,
    expect_concurrent_traffic,
    expect_no_loss,
    expect_traffic,
    expect_unchanged,
    release,
    requirement,
)

BEFORE = release("1.29")
WITH_GATE = release("1.30", ServiceTrafficDistribution=True)
BETA = release("1.31")
AUTO = {"service.kubernetes.io/topology-mode": "Auto"}
TCP, UDP = Port(80, "TCP", "web"), Port(80, "UDP", "web-udp")
TCP, UDP = Port(name="tcp"), Port(name="udp", protocol="UDP")


def _prefer_close(cluster: Cluster) -> tuple[Service, list[Pod]]:
    bring_to(cluster, Skew(WITH_GATE, WITH_GATE, WITH_GATE))
    service = cluster.create_service(selector=WEB, traffic_distribution="PreferClose", ports=(TCP, UDP))
    pods = cluster.run_servers(SERVERS, labels=WEB)
    hinted = expect_written(cluster, service, pods, "own zone")
    expect_traffic(cluster, service, routes(pods, "by zone", hinted))
    return service, pods


@requirement(
    "KEP-4444/api-server-downgrade-takes-hints-away",
    "When the API server is rolled back to a release without trafficDistribution, slices have no hints, traffic goes "
    "to all endpoints, and no connection is lost.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-4444, Rollout, Upgrade and Rollback Planning, steps 1 to 5",
    kills={"serves-fields-of-later-releases", "hints-outlive-the-field"},
)
def test_api_server_without_the_field_ends_hints(three_zones: Cluster) -> None:
    service, pods = _prefer_close(three_zones)

    with expect_no_loss(three_zones, service, from_=CLIENTS, allowed=set(pods)):
        three_zones.restart(API_SERVER, BEFORE)
        expect_stored(three_zones, service.name, "trafficDistribution", None)
        expect_written(three_zones, service, pods, "none")
        expect_traffic(three_zones, service, routes(pods, "anywhere", {}))


@requirement(
    "KEP-4444/api-server-upgrade-brings-field-and-hints-back",
    "When the API server is rolled forward again, trafficDistribution has its stored value, hints return, traffic "
    "stays in the zone, and no connection is lost.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-4444, Rollout, Upgrade and Rollback Planning, steps 6 to 8",
    kills={"forgets-fields-of-later-releases", "trusts-resource-versions"},
)
def test_field_and_hints_are_back_after_an_upgrade(three_zones: Cluster) -> None:
    service, pods = _prefer_close(three_zones)
    three_zones.restart(API_SERVER, BEFORE)
    expect_written(three_zones, service, pods, "none")

    with expect_no_loss(three_zones, service, from_=CLIENTS, allowed=set(pods)):
        three_zones.restart(API_SERVER, WITH_GATE)
        expect_stored(three_zones, service.name, "trafficDistribution", "PreferClose")
        hinted = expect_written(three_zones, service, pods, "own zone")
        expect_traffic(three_zones, service, routes(pods, "by zone", hinted))


@requirement(
    "KEP-4444/proxy-downgrade-sets-hints-aside",
    "When proxies are downgraded to a release without trafficDistribution, traffic to a Service with "
    "trafficDistribution and without the topology annotation goes to all endpoints, over TCP and UDP, and no "
    "connection is lost.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-4444, Rollout, Upgrade and Rollback Planning, steps 8 and 9",
    kills={"newest-proxy-at-any-release", "flushes-before-it-starts"},
)
def test_downgraded_proxies_use_every_endpoint(three_zones: Cluster) -> None:
    service, pods = _prefer_close(three_zones)
    everybody = set(pods)

    with (
        expect_no_loss(three_zones, service, from_=CLIENTS, allowed=everybody, port=TCP),
        expect_no_loss(three_zones, service, from_=CLIENTS, allowed=everybody, port=UDP),
    ):
        three_zones.restart(PROXY, BEFORE)
        expect_traffic(three_zones, service, routes(pods, "anywhere", {}))


@requirement(
    "KEP-4444/proxy-downgrade-leaves-objects-alone",
    "When a proxy is downgraded, neither the trafficDistribution of a Service nor the hints in its slices change.",
    level=SHOULD,  # that step says "should", and is about hints, not writes
    features={ROLLOUT},
    source="KEP-4444, Rollout, Upgrade and Rollback Planning, step 10",
    kills={"rewrites-slices-at-any-start"},
)
def test_objects_stay_when_proxies_are_downgraded(three_zones: Cluster) -> None:
    service, pods = _prefer_close(three_zones)

    with expect_unchanged(three_zones, service):
        three_zones.restart(PROXY, BEFORE)
        three_zones.restart(CONTROLLER, WITH_GATE)
    expect_stored(three_zones, service.name, "trafficDistribution", "PreferClose")
    expect_written(three_zones, service, pods, "own zone")


@requirement(
    "KEP-4444/controller-downgrade-ends-hints-of-the-field",
    "When the controller is downgraded to a release without trafficDistribution, it removes the hints that it wrote "
    "for the field, and follows the topology annotation; no connection is lost.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-4444, Upgrade / Downgrade Strategy (will simply not be considered in any decisions)",
    kills={"newest-controller-at-any-release"},
)
def test_downgraded_controller_does_what_the_annotation_says(three_zones: Cluster) -> None:
    service, pods = _prefer_close(three_zones)

    with expect_no_loss(three_zones, service, from_=CLIENTS, allowed=set(pods)):
        three_zones.restart(CONTROLLER, BEFORE)
        expect_written(three_zones, service, pods, "none")
        expect_traffic(three_zones, service, routes(pods, "anywhere", {}))
        three_zones.patch_service(service, {"metadata": {"annotations": AUTO}})
        hinted = expect_written(three_zones, service, pods, "shared out")
        expect_traffic(three_zones, service, routes(pods, "by zone", hinted))


@requirement(
    "KEP-4444/upgrade-keeps-the-annotation",
    "When the controller and the proxies are upgraded, hints and traffic of a Service with the topology annotation do "
    "not change, with or without trafficDistribution.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-4444, Upgrade / Downgrade Strategy",
    kills={"field-before-annotation-from-1-30"},
)
def test_upgrade_changes_nothing_for_the_annotation(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(BETA, BEFORE, BEFORE))
    service = three_zones.create_service(selector=WEB, annotations=AUTO, traffic_distribution="PreferClose")
    alone = three_zones.create_service(selector=WEB, annotations=AUTO)
    pods = three_zones.run_servers(SERVERS, labels=WEB)
    questions = []
    for name, each in (("annotation and field", service), ("annotation alone", alone)):
        hinted = expect_written(three_zones, each, pods, "shared out")
        questions.append(ExpectedTraffic(name, each, routes(pods, "by zone", hinted)))
    expect_concurrent_traffic(three_zones, questions)

    with (
        expect_unchanged(three_zones, service),
        expect_unchanged(three_zones, alone),
        expect_no_loss(three_zones, service, from_=CLIENTS, allowed=set(pods)),
    ):
        three_zones.restart(CONTROLLER, BETA)
        three_zones.restart(PROXY, BETA)
        expect_concurrent_traffic(three_zones, questions)


@requirement(
    "KEP-4444/rollout-loses-no-connection",
    "While the API server, the controller and the proxies are upgraded one by one, and downgraded again in the "
    "opposite order, no TCP connection and no UDP query is lost.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-4444, Rollout, Upgrade and Rollback Planning (running workloads should not get affected)",
    kills={"flushes-before-it-starts"},
)
def test_rollout_forth_and_back(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(BEFORE, BEFORE, BEFORE))
    service = three_zones.create_service(selector=WEB, ports=(TCP, UDP))
    pods = three_zones.run_servers(SERVERS, labels=WEB)
    everybody = set(pods)

    with (
        expect_no_loss(three_zones, service, from_=CLIENTS, allowed=everybody, port=TCP),
        expect_no_loss(three_zones, service, from_=CLIENTS, allowed=everybody, port=UDP),
    ):
        three_zones.restart(API_SERVER, BETA)
        three_zones.restart(CONTROLLER, BETA)
        for node in three_zones.topology.nodes:
            three_zones.restart(PROXY, BETA, on=[node.name])
        three_zones.patch_service(service, {"spec": {"trafficDistribution": "PreferClose"}})
        hinted = expect_written(three_zones, service, pods, "own zone")
        expect_traffic(three_zones, service, routes(pods, "by zone", hinted))
        for node in three_zones.topology.nodes:
            three_zones.restart(PROXY, BEFORE, on=[node.name])
        three_zones.restart(CONTROLLER, BEFORE)
        three_zones.restart(API_SERVER, BEFORE)
        expect_written(three_zones, service, pods, "none")
        expect_traffic(three_zones, service, routes(pods, "anywhere", {}))
