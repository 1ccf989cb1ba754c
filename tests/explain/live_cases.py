"""Causes on a running cluster. Each row creates a cause, has the expected report, and applies the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explain.causes import Finding
from harness.model.manifests import Port
from harness.model.release import Component, Release
from harness.scenario.service import same_node, same_zone
from tests.explain.cluster_builders import AUTO, MODE, OLD_KEY, ZONES, lease
from tests.explain.shop_namespace import (
    EACH_NODE,
    EACH_ZONE,
    SYSTEM,
    WEB,
    Change,
    Heal,
    ShopNamespace,
    auto,
    by,
    commands,
    in_turn,
    other_commands,
    scale,
    served,
)


@dataclass(frozen=True)
class LiveCase:
    """How to create a cause, the expected id, nodes and remedy in the report, and how to apply the remedy.

    `real` is the reason why the test cannot use the real Kubernetes components, and `embedded` the reason why it cannot
    use the reference. "" means that the test can. The cluster has this `release` and these enabled `gates`. If `note`
    is set, the finding is a note and not a cause.
    """

    cause: str
    make: Change
    heal: Heal
    remedy: str
    nodes: str = ""
    real: str = ""
    release: str = ""
    gates: str = ""
    embedded: str = ""
    note: bool = False


def _outside(shop: ShopNamespace) -> None:
    shop.run(EACH_ZONE)
    spec = {"type": "ExternalName", "externalName": "example.com"}
    shop.api.create("services", shop.namespace, {"metadata": {"name": "web"}, "spec": spec})


def _inside(shop: ShopNamespace) -> None:
    spec = {"type": "ClusterIP", "externalName": None, "selector": WEB, "trafficDistribution": "PreferSameZone"}
    shop.api.patch("services", shop.namespace, "web", {"spec": {**spec, "ports": [{"port": 80, "targetPort": 8080}]}})


def _anew(shop: ShopNamespace) -> None:
    shop.cluster.delete_service(shop.service)
    shop.serve()


def _ask(shop: ShopNamespace) -> None:
    shop.patch(trafficDistribution="PreferSameZone")


def _lease(shop: ShopNamespace) -> None:
    shop.create("leases", lease(renewed="2020-01-01T00:00:00.000000Z"))


def _renewed(shop: ShopNamespace) -> None:
    spec = {"renewTime": "2099-01-01T00:00:00.000000Z"}
    shop.api.patch("leases", SYSTEM, "kube-controller-manager", {"spec": spec})
    shop.start_controller()


def _old_controller(shop: ShopNamespace) -> None:
    image, labels = "registry.k8s.io/kube-controller-manager:v1.32.4", {"component": "kube-controller-manager"}
    shop.run_component("kube-controller-manager-cp", "a1", image, labels)
    shop.cluster.restart(Component.CONTROLLER, Release("1.32"))
    shop.serve(on=EACH_ZONE, asks="PreferSameNode")


def _upgrade(shop: ShopNamespace) -> None:
    for component in (Component.API_SERVER, Component.CONTROLLER, Component.PROXY):
        shop.cluster.restart(component, Release("1.24"))


def _without_keys(shop: ShopNamespace) -> None:
    shop.patch(topologyKeys=None)
    for component in (Component.PROXY, Component.CONTROLLER, Component.API_SERVER):
        shop.cluster.restart(component, Release("1.34"))


def _two_annotations(shop: ShopNamespace) -> None:
    """Set two annotations that differ. API servers since 1.27 reject new differences, but keep stored ones."""
    shop.serve(on=EACH_NODE, annotations={OLD_KEY: "Disabled", **AUTO}, asks=None)
    for component in (Component.API_SERVER, Component.CONTROLLER, Component.PROXY):
        shop.cluster.restart(component, Release())


def _not_again(shop: ShopNamespace) -> None:
    """Label a node late. Controllers before 1.34 do not sync then, which a stopped controller simulates."""
    shop.move("b2", None)
    shop.serve(on=EACH_NODE, annotations=AUTO, asks=None)
    shop.stop_controller()
    shop.move("b2", "b")
    for each in shop.cluster.slices(shop.service):
        given = [{**one, "zone": ZONES[one["nodeName"]]} for one in each["endpoints"]]
        shop.api.patch("endpointslices", shop.namespace, each["metadata"]["name"], {"endpoints": given})


def _run_without_the_name(shop: ShopNamespace) -> None:
    shop.run("c1", container_ports=[("web", 8080, "TCP")])


def by_older_controller(shop: ShopNamespace, finding: Finding) -> None:
    """Run the remedy, and restart the controller so that it processes the Service."""
    commands(shop, finding)
    shop.start_controller()


def _two_slices(shop: ShopNamespace) -> None:
    """Write a second slice with an endpoint without hints, while the controller is stopped."""
    shop.serve(on=EACH_ZONE)
    shop.stop_controller()
    first = shop.cluster.slices(shop.service)[0]
    (last,) = [each for each in first["endpoints"] if each["nodeName"] == "c1"]
    labels = first["metadata"]["labels"]
    second = {**first, "metadata": {"name": "web-second", "labels": labels}, "endpoints": [{**last, "hints": None}]}
    shop.api.create("endpointslices", shop.namespace, second)


def _hinted_for_b(shop: ShopNamespace) -> None:
    """Hint the endpoint on c1 for zone b, while the controller is stopped."""
    shop.stop_controller()
    (only,) = shop.cluster.slices(shop.service)
    for each in only["endpoints"]:
        each["hints"] = {"forZones": [{"name": "b"}]} if each["nodeName"] == "c1" else each["hints"]
    shop.api.patch("endpointslices", shop.namespace, only["metadata"]["name"], {"endpoints": only["endpoints"]})


def _by_hand(shop: ShopNamespace) -> None:
    shop.serve(on=EACH_ZONE)
    shop.publish("a1 ")


def _republish(shop: ShopNamespace) -> None:
    shop.cluster.publish(shop.service, [same_zone(each) for each in shop.pods])


def _node_hints(shop: ShopNamespace) -> None:
    shop.serve(selector=None)
    shop.pods = shop.cluster.run_servers(on=EACH_ZONE.split())
    shop.cluster.publish(shop.service, [same_node(each) for each in shop.pods], unasked=True)


def _old_proxies(shop: ShopNamespace) -> None:
    shop.set_kubelet("a1 b1", "v1.22.4")
    shop.cluster.restart(Component.PROXY, Release("1.22"), on=["a1", "b1"])
    shop.serve(on=EACH_ZONE)


def _new_proxies(shop: ShopNamespace) -> None:
    shop.cluster.restart(Component.PROXY, on=["a1", "b1"])
    shop.set_kubelet("a1 b1", "v1.37.0")


def _ill_proxy(shop: ShopNamespace) -> None:
    shop.serve(on=EACH_ZONE)
    image, status = "registry.k8s.io/kube-proxy:v1.37.0", {"conditions": [{"type": "Ready", "status": "False"}]}
    for node in ("a1", "a2", "b1", "b2", "c1"):
        ill = status if node == "a1" else {}
        shop.run_component(f"kube-proxy-{node}", node, image, {"k8s-app": "kube-proxy"}, **ill)


def _ready_proxy(shop: ShopNamespace) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    shop.api.patch("pods", SYSTEM, "kube-proxy-a1", {"status": status}, subresource="status")


def _late_label(shop: ShopNamespace) -> None:
    """The managedFields of a server-side apply record the time of a label."""
    shop.serve(on=EACH_ZONE)
    labels = {"k8s-app": "calico-node"}
    shop.run_component("calico-node-x", "c1", "calico/node:v3.30", labels, startTime="2020-01-01T00:00:00Z")
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "c1", "labels": {"topology.kubernetes.io/zone": "c"}},
    }
    query = {"fieldManager": "kubectl", "force": "true"}
    path = "/api/v1/nodes/c1"
    answered = shop.api.request("PATCH", path, body, query=query, content_type="application/apply-patch+yaml")
    assert answered.code == 200, answered.body


def _moved(shop: ShopNamespace) -> None:
    shop.serve(on=EACH_ZONE)
    shop.stop_controller()
    shop.move("c1", "d")


def _no_longer_ready(*nodes: str) -> Change:
    def change(shop: ShopNamespace) -> None:
        for each in nodes:
            shop.cluster.nodes.report(each, ready=False)

    return change


def _ready_again(shop: ShopNamespace) -> None:
    for each in ("b1", "b2", "c1"):
        shop.cluster.nodes.report(each, ready=True)


def _pending(shop: ShopNamespace) -> None:
    """Create a pod that no kubelet runs, because it is on no node."""
    spec = {"containers": [{"name": "it", "image": "it"}], "nodeSelector": {"none": "such"}}
    shop.api.create("pods", shop.namespace, {"metadata": {"name": "waits", "labels": WEB}, "spec": spec})


def _terminate_all(shop: ShopNamespace) -> None:
    shop.serve(on=EACH_ZONE)
    shop.end("web-1", "web-2", "web-3")


def _served_by_hand(*ports: Port, family: str = "IPv4", **fields: Any) -> Change:
    """Return a function that creates Service `web` with these ports and a slice by hand for them."""

    def serve(shop: ShopNamespace) -> None:
        shop.serve(selector=None, ports=ports or [Port(80, "TCP", "http")], **fields)
        shop.publish("a1 a", "b1 b", "c1 c", families=[family])

    return serve


def _ports(**changed: Any) -> Change:
    """Return a function that changes the first port of the Service."""
    return lambda shop: shop.patch(ports=[{"port": 80, **changed}])


def _and_grpc(shop: ShopNamespace) -> None:
    http = {"name": "http", "port": 80, "targetPort": 8080}
    shop.patch(ports=[http, {"name": "grpc", "port": 81, "targetPort": 9090}])


LOCAL = {"internal_traffic_policy": "Local"}
OF_RELEASES = "only one release of them is installed"
NO_GATE = "no release of them has the gate"
FIELD = 'patch service web -p \'{"spec":{"trafficDistribution":"PreferSameZone"}}\''
RUNS = "kubectl -n kube-system logs -l component=kube-controller-manager"
ROWS = {
    "another name": LiveCase(
        "external-name", _outside, by(_inside), '"type":"ClusterIP","externalName":null,"selector":'
    ),
    "headless": LiveCase("headless", served(clusterIP="None"), by(_anew), "| kubectl replace --force -f -"),
    "another proxy": LiveCase(
        "other-proxy",
        served(labels={"service.kubernetes.io/service-proxy-name": "mesh"}),
        commands,
        "label service web service.kubernetes.io/service-proxy-name-",
    ),
    "topology keys": LiveCase(
        "topology-keys",
        served(topologyKeys=["topology.kubernetes.io/zone"]),
        by(_without_keys),
        "disable the feature gate ServiceTopology",
        real=NO_GATE,
        release="1.34",
        gates="ServiceTopology",
    ),
    "a Service that does not ask": LiveCase("asks-for-nothing", served(asks=None), commands, FIELD),
    "an annotation that is no value": LiveCase(
        "annotation-unknown", auto(EACH_NODE, {MODE: "AUTO"}), commands, "topology-mode=Auto --overwrite"
    ),
    "no selector and no slice": LiveCase(
        "no-selector",
        served(selector=None),
        by(lambda shop: shop.patch(selector=WEB)),
        '{"spec":{"selector":{"KEY":"VALUE"}}}',
    ),
    "a selector of nobody": LiveCase(
        "selector-matches-nobody",
        served(selector={"app": "other"}),
        by(lambda shop: shop.patch(selector=WEB)),
        "get pods --show-labels; then correct spec.selector or the labels",
    ),
    "pods without slices": LiveCase(
        "no-slices", in_turn(ShopNamespace.stop_controller, served()), by(ShopNamespace.start_controller), RUNS
    ),
    "a pod without a node": LiveCase(
        "empty-slices",
        in_turn(served(on=""), _pending),
        by(lambda shop: shop.run(EACH_ZONE)),
        "get pods -l app=web -o wide",
    ),
    "no pod is ready": LiveCase(
        "no-ready-endpoint",
        in_turn(served(on=""), lambda shop: shop.run(EACH_ZONE, ready=False)),
        by(lambda shop: shop.set_ready("web-1", "web-2", "web-3")),
        "describe pod web-1",
    ),
    "a slice that names its port otherwise": LiveCase(
        "port-name-differs",
        in_turn(_served_by_hand(), _ports(name="web")),
        commands,
        '[{"op":"add","path":"/ports/0/name","value":"web"}]',
    ),
    "a slice of another protocol": LiveCase(
        "protocol-without-endpoints",
        in_turn(_served_by_hand(), _ports(name="http", protocol="UDP")),
        by(_ports(name="http", protocol="TCP")),
        "add a port with protocol UDP to the slices",
    ),
    "a target port that no pod names": LiveCase(
        "target-port-of-no-pod",
        in_turn(served(), _ports(targetPort="web")),
        by(_ports(targetPort=8080)),
        "or a number, as targetPort of port 80/TCP",
    ),
    "a target port that one of three pods does not name": LiveCase(
        "target-port-of-some-pods",
        in_turn(served("a1 b1"), _ports(targetPort="http"), _run_without_the_name),
        other_commands,
        '"path":"/spec/ports/0/targetPort","value":8080}]',
        nodes="c1",
    ),
    "one of two ports": LiveCase(
        "port-without-endpoints",
        in_turn(_served_by_hand(), _and_grpc),
        commands,
        '[{"op":"add","path":"/ports/-","value":{"name":"grpc","port":9090,"protocol":"TCP"}}]',
    ),
    "one of two families": LiveCase(
        "family-without-endpoints",
        _served_by_hand(dual_stack=True),
        other_commands,
        "write endpoints of family IPv6 into an EndpointSlice; or, if clients need no IPv6, kubectl",
    ),
    "the first of two families": LiveCase(
        "first-family-without-endpoints",
        _served_by_hand(family="IPv6", dual_stack=True),
        by(lambda shop: shop.cluster.publish(shop.service, [same_zone(each) for each in shop.pods])),
        "write endpoints of family IPv4 into an EndpointSlice; or, if clients need no IPv4, kubectl",
    ),
    "all pods end": LiveCase(
        "terminating-only", _terminate_all, by(lambda shop: shop.run(EACH_ZONE)), "wait for new pods"
    ),
    "internal policy": LiveCase(
        "internal-policy-local",
        served(**LOCAL),
        commands,
        '"Cluster","trafficDistribution":"PreferSameNode"}}',
        "a2 b2",
    ),
    "external policy at node ports": LiveCase(
        "external-clients-dropped",
        served(type="NodePort", external_traffic_policy="Local"),
        other_commands,
        "let these clients use nodes with a ready endpoint (a1 b1 c1)",
        "a2 b2",
    ),
    "external policy of a load balancer": LiveCase(
        "external-policy-local",
        served(type="LoadBalancer", external_traffic_policy="Local"),
        by(lambda shop: shop.patch(externalTrafficPolicy="Cluster")),
        "nothing, if the Service must see the addresses of its clients",
        "a2 b2",
        note=True,
    ),
    "clients outside": LiveCase(
        "external-clients",
        served(type="NodePort"),
        by(lambda shop: shop.patch(type="ClusterIP")),
        "let clients enter at nodes of their own zone",
        note=True,
    ),
    "an annotation that says nothing": LiveCase(
        "annotation-unknown",
        auto(EACH_NODE, {MODE: "AUTO"}, asks="PreferSameZone"),
        commands,
        "annotate service web service.kubernetes.io/topology-mode-",
        note=True,
    ),
    "a misspelt annotation alone": LiveCase(
        "annotation-misspelt",
        auto(EACH_NODE, {"service.kubernetes.io/topolgy-mode": "Auto"}),
        commands,
        "topology-mode=Auto --overwrite",
    ),
    "the annotation as a label alone": LiveCase(
        "annotation-as-label", served(EACH_NODE, labels=AUTO, asks=None), commands, "topology-mode=Auto --overwrite"
    ),
    "two annotations": LiveCase(
        "annotation-hidden",
        _two_annotations,
        commands,
        "annotate service web service.kubernetes.io/topology-aware-hints-",
        real=OF_RELEASES,
        release="1.26",
    ),
    "annotation and field": LiveCase(
        "annotation-overrides-field",
        auto(asks="PreferSameZone"),
        commands,
        "annotate service web service.kubernetes.io/topology-mode-",
        note=True,
    ),
    "a gate that is off": LiveCase(
        "gate-off",
        auto(EACH_NODE, {OLD_KEY: "auto"}),
        by(_upgrade),
        "use Kubernetes 1.24 or newer, or start kube-controller-manager with --feature-gates=TopologyAwareHints=true",
        real=OF_RELEASES,
        release="1.23",
    ),
    "a controller that is older than the value": LiveCase(
        "value-unknown-to-the-controller",
        _old_controller,
        other_commands,
        '"trafficDistribution":"PreferClose"',
        real=OF_RELEASES,
    ),
    "a worker without a zone": LiveCase(
        "node-without-zone",
        in_turn(lambda shop: shop.move("b2", None), auto()),
        commands,
        "kubectl label node b2 topology.kubernetes.io/zone=ZONE",
    ),
    "a worker without CPU": LiveCase(
        "node-without-cpu",
        in_turn(lambda shop: shop.cluster.nodes.report("b2", cpu_milli=0), auto()),
        by(lambda shop: shop.cluster.nodes.report("b2", cpu_milli=4000)),
        "kubectl get node b2 -o jsonpath='{.status.allocatable}'",
    ),
    "workers of one zone": LiveCase(
        "one-zone",
        in_turn(_no_longer_ready("b1", "b2", "c1"), auto()),
        by(_ready_again),
        "kubectl get nodes -L topology.kubernetes.io/zone",
    ),
    "fewer pods than zones": LiveCase("too-few-endpoints", auto("a1 b1"), scale, "run 5 pods of a Deployment; or"),
    "an overload, and the number of pods": LiveCase(
        "overload", auto("a1 a2 b1 c1"), scale, "run 5 pods of a Deployment; or"
    ),
    "an overload, and the field": LiveCase("overload", auto("a1 a2 b1 c1"), other_commands, FIELD),
    "exactly 20 per cent": LiveCase(
        "floating-point", auto(EACH_ZONE), other_commands, FIELD, embedded="the reference computes exactly"
    ),
    "what kept hints away stands no more": LiveCase(
        "hints-not-back",
        _not_again,
        by_older_controller,
        "annotate service web",
    ),
    "hints that nobody writes": LiveCase(
        "hints-not-written",
        in_turn(served(asks=None), ShopNamespace.stop_controller, _ask),
        by(ShopNamespace.start_controller),
        RUNS,
    ),
    "a controller that is gone": LiveCase(
        "controller-gone",
        in_turn(served(asks=None), ShopNamespace.stop_controller, _lease, _ask),
        by(_renewed),
        "get pods -l component=kube-controller-manager",
    ),
    "a pod on a node without a zone": LiveCase(
        "endpoint-without-zone",
        in_turn(lambda shop: shop.move("c1", None), served()),
        commands,
        "kubectl label node c1 topology.kubernetes.io/zone=ZONE",
    ),
    "a pod on a node that is gone": LiveCase(
        "endpoint-on-a-missing-node",
        in_turn(served(publishNotReadyAddresses=True), lambda shop: shop.run("z9")),
        commands,
        "delete pod web-4",
    ),
    "a slice by hand": LiveCase(
        "slice-of-another-manager", _by_hand, commands, "patch endpointslice web-slice-ipv4 --type=json -p"
    ),
    "a slice without hints": LiveCase("slices-disagree", _two_slices, by(ShopNamespace.start_controller), RUNS),
    "hints for another zone": LiveCase("hinted-for-another-zone", auto("a1 a2 b1 c1 c1"), commands, FIELD),
    "hints by hand": LiveCase(
        "hints-of-somebody-else",
        in_turn(served(on="", selector=None), lambda shop: shop.publish("a1 a", "b1 c", "c1 b")),
        commands,
        "kubectl -n shop-",
        nodes="b1 b2 c1",
    ),
    "hints for nodes": LiveCase(
        "node-hints-not-asked", _node_hints, by(_republish), "nothing, if they are intended", EACH_ZONE, note=True
    ),
    "a pod on a node that is not ready": LiveCase(
        "endpoint-on-a-node-not-ready",
        in_turn(served(publishNotReadyAddresses=True), _no_longer_ready("c1")),
        by(in_turn(lambda shop: shop.patch(publishNotReadyAddresses=False), _ready_again)),
        "kubectl describe node c1",
        "c1",
        note=True,
    ),
    "session affinity": LiveCase(
        "session-affinity", served(sessionAffinity="ClientIP"), commands, '{"sessionAffinity":"None"}', note=True
    ),
    "pods that are published before they are ready": LiveCase(
        "publishes-unready-pods",
        served(publishNotReadyAddresses=True),
        commands,
        '{"publishNotReadyAddresses":false}',
        note=True,
    ),
    "a misspelt annotation": LiveCase(
        "annotation-misspelt",
        served(annotations={f"{MODE}s": "Auto"}),
        commands,
        f"annotate service web {MODE}s-",
        note=True,
    ),
    "the annotation as a label": LiveCase(
        "annotation-as-label", served(labels=AUTO), commands, f"label service web {MODE}-", note=True
    ),
    "the annotation of a mesh": LiveCase(
        "annotation-of-a-mesh",
        served(asks=None, annotations={"networking.istio.io/traffic-distribution": "PreferClose"}),
        commands,
        FIELD,
    ),
    "a waypoint": LiveCase(
        "service-behind-a-proxy",
        served(labels={"istio.io/use-waypoint": "gate"}),
        commands,
        "label service web istio.io/use-waypoint=none --overwrite",
        note=True,
    ),
    "a node that lost its label": LiveCase(
        "client-node-without-zone",
        in_turn(served(), lambda shop: shop.move("b2", None)),
        commands,
        "kubectl label node b2 topology.kubernetes.io/zone=ZONE",
        "b2",
    ),
    "a node that has moved": LiveCase(
        "endpoint-of-a-former-zone", _moved, by_older_controller, "annotate service web trafficdist.dev/touched", "c1"
    ),
    "a label younger than the proxy": LiveCase(
        "zone-label-changed", _late_label, commands, "kubectl -n kube-system delete pod calico-node-x", "c1", note=True
    ),
    "a zone without a pod": LiveCase(
        "zone-without-endpoint",
        served(on="a1 b1"),
        by(lambda shop: shop.run("c1")),
        "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone",
        "c1",
    ),
    "a pod that is not ready": LiveCase(
        "zone-not-ready",
        in_turn(served(on="a1 b1"), lambda shop: shop.run("c1", ready=False)),
        by(lambda shop: shop.set_ready("web-3")),
        "describe pod web-3",
        "c1",
    ),
    "a zone that a rollout empties": LiveCase(
        "zone-terminating",
        in_turn(served(), lambda shop: shop.end("web-3")),
        by(lambda shop: shop.run("c1")),
        "in a Deployment that replaces these pods, which no workload owns: topologySpreadConstraints",
        "c1",
    ),
    "a zone that no hint names": LiveCase(
        "zone-not-hinted",
        in_turn(auto(), _hinted_for_b),
        by(ShopNamespace.start_controller),
        RUNS,
        "c1",
    ),
    "proxies before the feature": LiveCase(
        "proxy-too-old",
        _old_proxies,
        by(_new_proxies),
        "upgrade kube-proxy on a1 b1 to v1.37.0",
        "a1 b1",
        real=OF_RELEASES,
    ),
    "a proxy that is not ready": LiveCase(
        "proxy-not-ready", _ill_proxy, by(_ready_proxy), "kubectl -n kube-system logs kube-proxy-a1", "a1", note=True
    ),
}
"""Not here: slice-unreadable, because API servers reject such a slice, and proxy-does-otherwise, which only a probe
detects: tests/explain/test_clients.py."""
