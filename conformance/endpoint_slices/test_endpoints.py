"""Endpoints of pods: EndpointSlices contain every pod, with correct conditions, node, zone and ports."""

from __future__ import annotations

import itertools
from collections import Counter

from conformance.features import DUAL_STACK_SLICES, ENDPOINT_LOCATIONS, ENDPOINT_SLICES
from conformance.second_namespace import namespace_beside
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    Port,
    expect_conditions,
    expect_eventually,
    expect_hints,
    manifests,
    requirement,
    written_endpoints,
)

WEB = {"app": "web"}
FRONT = {**WEB, "tier": "front"}


@requirement(
    "SLICE/endpoints-know-their-place",
    "Each endpoint has the name of its pod's node, and the zone from that node's zone label.",
    level=SHOULD,
    must_if=ENDPOINT_LOCATIONS,
    features={ENDPOINT_SLICES},
    source="discovery/v1 Endpoint (nodeName and zone, both optional); KEP-2433, Proposal (its example has the zone)",
    kills={"endpoints-without-zone"},
)
def test_endpoint_carries_node_and_zone(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    three_zones.create_pod("p1", "b2", labels=WEB)

    written = expect_hints(three_zones, service, {"p1": None})["p1"]
    place = {"nodeName": written.node, "zone": written.zone}
    three_zones.expect_equal("place of endpoint p1", expected={"nodeName": "b2", "zone": "b"}, observed=place)


@requirement(
    "SLICE/endpoint-refers-to-its-pod",
    "The targetRef of each endpoint has the kind, the namespace and the name of its pod.",
    level=SHOULD,
    features={ENDPOINT_SLICES},
    source="discovery/v1 Endpoint.targetRef (a reference to a Kubernetes object that represents this endpoint); "
    "core/v1 ObjectReference.namespace",
    kills={"references-without-namespace"},
)
def test_endpoint_refers_to_its_pod(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    for name, node in (("p1", "a1"), ("p2", "b1")):
        three_zones.create_pod(name, node, labels=WEB)
    expect_hints(three_zones, service, {"p1": None, "p2": None})

    expect_eventually(
        three_zones,
        f"references of the endpoints of service {service.name}",
        lambda: sorted(
            {
                tuple(endpoint["targetRef"].get(field, "") for field in ("kind", "namespace", "name"))
                for each in three_zones.slices(service)
                for endpoint in each.get("endpoints") or ()
            }
        ),
        expected=[("Pod", three_zones.namespace, name) for name in ("p1", "p2")],
    )


@requirement(
    "SLICE/conditions-of-endpoints",
    "An endpoint is ready if its pod is ready and not being deleted, serving if its pod is ready, and terminating if "
    "its pod is being deleted.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="discovery/v1 EndpointConditions; KEP-1672",
    kills={"terminating-means-ready", "terminating-pod-serves-anyhow"},
)
def test_conditions_follow_readiness_and_deletion(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    three_zones.create_pod("ready", "a1", labels=WEB)
    three_zones.create_pod("starting", "a1", labels=WEB, ready=False)
    three_zones.create_pod("leaving", "b1", labels=WEB)
    three_zones.create_pod("quiet", "b1", labels=WEB, ready=False)
    for name in ("leaving", "quiet"):
        three_zones.begin_termination(name)

    conditions = {
        "ready": (True, True, False),
        "starting": (False, False, False),
        "leaving": (False, True, True),
        "quiet": (False, False, True),
    }
    expect_hints(three_zones, service, dict.fromkeys(conditions))
    expect_conditions(three_zones, service, conditions)


@requirement(
    "SLICE/readiness-while-terminating",
    "While a pod terminates, the serving condition of its endpoint follows the pod's readiness.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="discovery/v1 EndpointConditions (serving); KEP-1672",
    kills={"terminating-pod-serves-anyhow"},
)
def test_serving_follows_readiness_during_termination(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    three_zones.create_pod("leaving", "b1", labels=WEB)
    three_zones.begin_termination("leaving")
    expect_hints(three_zones, service, {"leaving": None})

    for ready in (False, True, False):
        three_zones.set_ready("leaving", ready)
        expect_conditions(three_zones, service, {"leaving": (False, ready, True)})


@requirement(
    "SLICE/publish-not-ready-addresses",
    "With publishNotReadyAddresses, the ready condition of every endpoint is true, even while its pod terminates; the "
    "serving condition still follows the pod's readiness.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="core/v1 ServiceSpec.publishNotReadyAddresses; discovery/v1 EndpointConditions.ready",
    kills={"ignores-publish-not-ready", "published-means-serving", "terminating-pods-are-not-published"},
)
def test_publish_not_ready_addresses_makes_every_endpoint_ready(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, publishNotReadyAddresses=True)
    three_zones.create_pod("starting", "a1", labels=WEB, ready=False)
    three_zones.create_pod("leaving", "b1", labels=WEB)
    three_zones.create_pod("quiet", "b1", labels=WEB, ready=False)
    for name in ("leaving", "quiet"):
        three_zones.begin_termination(name)

    conditions = {"starting": (True, False, False), "leaving": (True, True, True), "quiet": (True, False, True)}
    expect_hints(three_zones, service, dict.fromkeys(conditions))
    expect_conditions(three_zones, service, conditions)


@requirement(
    "SLICE/endpoints-follow-the-pods",
    "A pod that matches every label of the selector is an endpoint unless it has succeeded or failed; it stops being "
    "an endpoint when it is deleted or no longer matches.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="core/v1 ServiceSpec.selector; discovery/v1 EndpointSlice",
    kills={
        "does-nothing",
        "ended-pods-keep-their-addresses",
        "first-label-alone-selects",
        "keeps-ended-pods",
        "keeps-former-pods",
    },
    answers={"EndpointSlices"},
)
def test_endpoints_come_and_go_with_pods(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=FRONT)
    three_zones.create_pod("stays", "a1", labels={**FRONT, "release": "7"})
    three_zones.create_pod("stranger", "a1", labels={"app": "other", "tier": "front"})
    three_zones.create_pod("half", "a1", labels=WEB)
    three_zones.create_pod("ended", "a1", labels=FRONT, phase="Succeeded")
    for name in ("deleted", "relabelled"):
        three_zones.create_pod(name, "b1", labels=FRONT)
    expect_hints(three_zones, service, {"stays": None, "deleted": None, "relabelled": None})

    three_zones.api.delete("pods", three_zones.namespace, "deleted", grace_seconds=0)
    three_zones.api.patch("pods", three_zones.namespace, "relabelled", {"metadata": {"labels": {"tier": "back"}}})
    expect_hints(three_zones, service, {"stays": None})


@requirement(
    "SLICE/pods-of-other-namespaces-are-none",
    "Pods in another namespace are not endpoints of a Service, whatever labels they have.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="core/v1 ServiceSpec.selector; Kubernetes, Namespaces (isolating groups of resources)",
    kills={"selects-in-every-namespace"},
)
def test_pods_of_other_namespaces_are_no_endpoints(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, service, {"p1": None})
    with namespace_beside(three_zones) as beside:
        three_zones.api.create("services", beside, manifests.service(service.name, selector=WEB))
        three_zones.create_pod("p2", "b1", labels=WEB)
        expect_hints(three_zones, service, {"p1": None, "p2": None})
        expect_eventually(
            three_zones,
            f"endpoints of service {service.name} in a namespace without pods",
            lambda: [
                endpoint["addresses"]
                for each in three_zones.api.list("endpointslices", beside)
                for endpoint in each.get("endpoints") or ()
            ],
            expected=[],
            stays=True,
        )


@requirement(
    "SLICE/every-pod-stands-once",
    "Each of a Service's 105 pods is in the Service's slices exactly once, however many slices a controller uses.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="discovery/v1 EndpointSlice (a subset of the endpoints of a Service); ServiceSpec.selector",
    kills={"leaves-out-what-does-not-fit", "overlapping-slices"},
)
def test_every_pod_stands_in_the_slices_once(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    names = [f"p{number}" for number in range(105)]  # released controllers write a second slice from 101 endpoints on
    nodes = itertools.cycle(
        node.name for node in three_zones.topology.nodes
    )  # a controller may write slices of about thirty endpoints
    for name, node in zip(names, nodes, strict=False):
        three_zones.create_pod(name, node, labels=WEB)

    written = expect_hints(three_zones, service, dict.fromkeys(names))
    sizes = Counter(name for each in written.values() for name in each.slices)
    three_zones.measured(f"endpoints in each slice of service {service.name}", sizes)


@requirement(
    "SLICE/named-ports-resolve-per-pod",
    "A named target port resolves to the port with that name and the same protocol in each pod, and pods with "
    "different port numbers are in different slices.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="core/v1 ServicePort.targetPort (named ports); discovery/v1 EndpointSlice.ports",
    kills={
        "init-containers-name-ports",
        "named-ports-of-any-protocol",
        "named-ports-resolve-once",
        "pods-without-the-named-port-fail-the-sync",
    },
    fixes={"ports": "the scenario compares all ports", "family": "the scenario reads IPv4 slices"},
)
def test_named_target_port_resolves_in_each_pod(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, ports=[Port(80, target="web")])
    three_zones.create_pod("p1", "a1", labels=WEB, container_ports=[("web", 8080, "TCP")])
    three_zones.create_pod("p2", "a1", labels=WEB, container_ports=[("web", 9090, "TCP")])

    written = expect_hints(three_zones, service, {"p1": None, "p2": None})
    ports = {
        each["metadata"]["name"]: [port["port"] for port in each.get("ports") or ()]
        for each in three_zones.slices(service)
    }
    seen = {name: [port for every in each.slices for port in ports[every]] for name, each in written.items()}
    three_zones.expect_equal("ports in the slices of each pod", expected={"p1": [8080], "p2": [9090]}, observed=seen)

    # A controller may leave out pods without the named port, or write them to slices without ports.
    three_zones.create_pod("other", "a1", labels=WEB, container_ports=[("admin", 7070, "TCP")])
    three_zones.create_pod("none", "a1", labels=WEB)
    three_zones.create_pod("udp", "a1", labels=WEB, container_ports=[("web", 6060, "UDP")])
    three_zones.create_pod("p3", "a1", labels=WEB, container_ports=[("web", 9191, "TCP")])
    expect_eventually(
        three_zones,
        f"named ports of the pods of service {service.name}",
        lambda: sorted(
            [endpoint["targetRef"]["name"], port["port"]]
            for each in three_zones.slices(service)
            for port in each.get("ports") or ()
            for endpoint in each.get("endpoints") or ()
            if each["addressType"] == "IPv4"
        ),
        expected=[["p1", 8080], ["p2", 9090], ["p3", 9191]],
        stays=True,
    )


@requirement(
    "SLICE/one-address-type-per-family",
    "A dual-stack Service has slices of both address types, and each slice contains the pods' addresses of its own "
    "type, even if a pod gets its second address later than its first.",
    level=MUST,
    features={ENDPOINT_SLICES, DUAL_STACK_SLICES},
    source="discovery/v1 EndpointSlice.addressType",
    kills={"addresses-of-pods-are-frozen", "one-family-only", "one-family-unless-two-are-required"},
)
def test_dual_stack_service_has_slices_of_both_families(three_zones: Cluster) -> None:
    families = ["IPv4", "IPv6"]
    services = [
        three_zones.create_service(
            f"{policy}-{order[0]}".lower(), selector=WEB, ipFamilyPolicy=policy, ipFamilies=order
        )
        for policy, order in itertools.product(("PreferDualStack", "RequireDualStack"), (families, families[::-1]))
    ]
    three_zones.create_pod("p1", "a1", labels=WEB)
    for service, family in itertools.product(services, families):
        expect_hints(three_zones, service, {"p1": None}, family=family)

    three_zones.create_pod("p2", "b1", labels=WEB, phase="Pending")  # no kubelet reports the status of this pod
    every = three_zones.api.get("pods", three_zones.namespace, "p2")["status"]["podIPs"]
    for known in (every[:1], every):
        status = {"phase": "Running", "podIP": every[0]["ip"], "podIPs": known}
        three_zones.api.patch("pods", three_zones.namespace, "p2", {"status": status}, subresource="status")
        for service, family in itertools.product(services, families):
            has_address = any((":" in each["ip"]) == (family == "IPv6") for each in known)
            expect_hints(three_zones, service, dict.fromkeys(["p1", "p2"] if has_address else ["p1"]), family=family)


@requirement(
    "SLICE/no-selector-no-slices",
    "The controller creates no endpoints for a Service without a selector, nor for an ExternalName Service with a "
    "selector.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="core/v1 ServiceSpec.selector (empty: an external process manages the endpoints; ignored if ExternalName)",
    kills={"no-selector-means-every-pod", "endpoints-of-any-type"},
)
def test_service_without_selector_gets_no_endpoints(three_zones: Cluster) -> None:
    plain = three_zones.create_service("plain")
    alias = three_zones.create_service("alias", selector=WEB, type="ExternalName", externalName="web.example.org")
    selecting = three_zones.create_service(selector=WEB)
    three_zones.create_pod("p1", "a1", labels=WEB)

    expect_hints(three_zones, selecting, {"p1": None})  # now the controller has processed the pod
    seen = {each.name: sorted(written_endpoints(three_zones, each)) for each in (plain, alias)}
    three_zones.expect_equal(
        "endpoints of services without selector and of type ExternalName",
        expected={"plain": [], "alias": []},
        observed=seen,
    )
