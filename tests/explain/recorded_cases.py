"""Recorded clusters, each with the first cause or the note that `explain` must report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explain.objects import Objects
from harness.api.client import Object
from tests.explain.cluster_builders import (
    AUTO,
    BETA,
    EACH_ZONE,
    MODE,
    OLD_KEY,
    SPREAD,
    ZONES,
    agent,
    autoscaler,
    budget,
    by_annotation,
    cordoned,
    deployment,
    endpoint,
    event,
    ingress,
    labelled,
    lease,
    manifest,
    namespace,
    node,
    nodes,
    objects,
    of_slice,
    owned,
    pod,
    proxy,
    service,
    tainted,
    unhinted,
)

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane",)
ELSEWHERE = {
    key: each for key, each in endpoint("a1", zone="", hints="").items() if key not in {"nodeName", "targetRef"}
}
OF_C = (endpoint("c1", hints="a"), endpoint("c1", number=7, hints="b"))
IPV6 = {**endpoint("a1"), "addresses": ["fd00::1"]}
TWO_FAMILIES = service(
    clusterIPs=["10.96.0.9", "fd00:96::9"], ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="RequireDualStack"
)
FIRST_IPV6 = service(
    clusterIP="fd00:96::9",
    clusterIPs=["fd00:96::9", "10.96.0.9"],
    ipFamilies=["IPv6", "IPv4"],
    ipFamilyPolicy="PreferDualStack",
)
ONLY_IPV6 = service(clusterIP="fd00:96::9", clusterIPs=["fd00:96::9"], ipFamilies=["IPv6"])
OF_HTTP = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]
TWO_PORTS = [*OF_HTTP, {"name": "grpc", "port": 81, "protocol": "TCP", "targetPort": 9090}]
NODE_PORT = [{"port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080}]


@dataclass(frozen=True)
class RecordedCase:
    """A cluster, its first cause, the affected nodes, and texts in the explanation, the remedy and the evidence."""

    cause: str
    seen: Objects
    says: str = ""
    remedy: str = ""
    nodes: str = ""
    evidence: str = ""
    crossing: str = ""
    failing: str = ""


ALL = "a1 a2 b1 b2 c1"
EARLY = "2026-11-22T09:00:00Z"
AT = "2026-11-22T10:00:00Z"
NO_HINTS = of_slice(*unhinted("a1", "b1", "c1"))
ENDING = endpoint("a1", ready=False, serving=True, terminating=True)
NODE_HINTS = of_slice(*(endpoint(each, nodes=[each]) for each in ("a1", "b1", "c1")))
AUTO_UNEVEN = nodes(
    a2=None, b2=None, a1=node("a1", "a", cpu="2"), b1=node("b1", "b", cpu="2"), c1=node("c1", "c", cpu="1")
)
EDGE = nodes(a2=None, b2=None, a1=node("a1", "a", cpu="20"), b1=node("b1", "b", cpu="16"), c1=node("c1", "c", cpu="14"))
MORE_THAN_EDGE = [*EDGE[:2], node("c1", "c", cpu="12")]

ROWS = {
    "external name": RecordedCase(
        "external-name", objects(service(type="ExternalName", externalName="example.com")), "example.com", "type"
    ),
    "headless": RecordedCase("headless", objects(service(clusterIP="None", clusterIPs=["None"])), "clients choose"),
    "service proxy name": RecordedCase(
        "other-proxy",
        objects(service(labels={"service.kubernetes.io/service-proxy-name": "mesh"})),
        "assigns the Service to proxy 'mesh'",
        "label service web service.kubernetes.io/service-proxy-name-",
    ),
    "asks for nothing": RecordedCase(
        "asks-for-nothing",
        objects(service(asks=""), of_slice(*unhinted("a1", "b1", "c1"))),
        "connections leave their zone from all 5 nodes: neither trafficDistribution nor",
        'patch service web -p \'{"spec":{"trafficDistribution":"PreferSameZone"}}\'',
        crossing=ALL,
    ),
    "no selector": RecordedCase(
        "no-selector", objects(service(selector=None), of_slice()), "neither a selector nor", failing=ALL
    ),
    "a selector of nobody": RecordedCase(
        "selector-matches-nobody",
        objects(service(), of_slice(), pods=[pod("other", "a1", app="other")]),
        "no pod in namespace shop has the labels of the selector, app=web",
        "get pods --show-labels",
        failing=ALL,
    ),
    "no slices for pods": RecordedCase(
        "no-slices",
        replace(objects(service(), pods=[pod("web-1", "a1")]), endpointslices=[]),
        "the Service has no endpoint; it has no EndpointSlice",
        evidence="1 pod matches app=web",
        failing=ALL,
    ),
    "an empty slice of another manager": RecordedCase(
        "no-slices",
        objects(service(), of_slice(manager="me.example.com"), pods=[pod("web-1", "a1")]),
        "its EndpointSlices are empty, and not by the controller",
        failing=ALL,
    ),
    "empty slices for pods": RecordedCase(
        "empty-slices",
        objects(service(), of_slice(), pods=[pod("web-1", "a1")]),
        "the EndpointSlices of the Service have no endpoint; the controller has not processed the pods",
        "logs -l component=kube-controller-manager",
        evidence="1 pod matches app=web",
        failing=ALL,
    ),
    "empty slices for pods that wait": RecordedCase(
        "empty-slices",
        objects(service(), of_slice(), pods=[{**pod("web-1", ""), "status": {"phase": "Pending"}}]),
        "the controller knows no pod with app=web that has an address and runs",
        "kubectl -n shop get pods -l app=web -o wide",
        failing=ALL,
    ),
    "pods that may not be read": RecordedCase(
        "empty-slices",
        objects(service(), of_slice(), unread={"pods": "403"}),
        evidence="could not be read",
        failing=ALL,
    ),
    "pods of another family": RecordedCase(
        "first-family-without-endpoints",
        objects(
            ONLY_IPV6,
            of_slice(family="IPv6"),
            pods=[{**pod("web-1", "a1"), "status": {"phase": "Running", "podIPs": [{"ip": "10.244.1.2"}]}}],
        ),
        "no endpoint has an address of family IPv6, which is the first family of the Service; the pods have addresses",
        failing=ALL,
    ),
    "nobody is ready": RecordedCase(
        "no-ready-endpoint",
        objects(service(), of_slice(endpoint("a1", ready=False), endpoint("b1", ready=False))),
        "connections fail on all 5 nodes: none of 2 endpoints is ready: web-a1 web-b1",
        "describe pod web-a1",
        failing=ALL,
    ),
    "an address that is none": RecordedCase(
        "slice-unreadable",
        objects(service(), of_slice({**endpoint("a1"), "addresses": ["010.1.1.1"]})),
        "connections fail on all 5 nodes",
        failing=ALL,
    ),
    "internal policy beside the field": RecordedCase(
        "internal-policy-local",
        objects(service(internalTrafficPolicy="Local")),
        remedy='{"spec":{"internalTrafficPolicy":"Cluster","trafficDistribution":"PreferSameNode"}}\'',
        nodes="a2 b2",
        failing="a2 b2",
    ),
    "internal policy": RecordedCase(
        "internal-policy-local",
        objects(service(asks="", internalTrafficPolicy="Local")),
        "connections fail on 2 of 5 nodes: internalTrafficPolicy is Local",
        "PreferSameNode",
        nodes="a2 b2",
        failing="a2 b2",
    ),
    "internal policy beside the annotation": RecordedCase(
        "internal-policy-local",
        objects(by_annotation(internalTrafficPolicy="Local")),
        remedy=f'annotate service web {MODE}-; kubectl -n shop patch service web -p \'{{"spec":{{"internal',
        nodes="a2 b2",
        failing="a2 b2",
    ),
    "internal policy in a release without the value for the node": RecordedCase(
        "internal-policy-local",
        objects(service(asks="", internalTrafficPolicy="Local"), version="v1.33.0"),
        remedy='"Cluster"}}\'; kubectl -n shop patch service web -p \'{"spec":{"trafficDistribution":"PreferClose"}}\'',
        nodes="a2 b2",
        failing="a2 b2",
    ),
    "a release without the field": RecordedCase(
        "asks-for-nothing",
        objects(service(asks=""), NO_HINTS, version="v1.28.0"),
        remedy=f"annotate service web {MODE}=Auto --overwrite",
        crossing=ALL,
    ),
    "a misspelt annotation": RecordedCase(
        "annotation-misspelt",
        objects(service({"service.kubernetes.io/topolgy-mode": "Auto"}, asks=""), NO_HINTS),
        "connections leave their zone from all 5 nodes: no component reads annotation service.kubernetes.io/topolgy-mo",
        f"topolgy-mode-; kubectl -n shop annotate service web {MODE}=Auto --overwrite",
        crossing=ALL,
    ),
    "an annotation of a later release": RecordedCase(
        "annotation-misspelt",
        objects(by_annotation(), NO_HINTS, version="v1.26.3"),
        f"no component reads annotation {MODE}; did you mean {OLD_KEY}?",
        f"{MODE}-; kubectl -n shop annotate service web {OLD_KEY}=Auto --overwrite",
        crossing=ALL,
    ),
    "the annotation as a label": RecordedCase(
        "annotation-as-label",
        objects(service(labels=AUTO, asks=""), NO_HINTS),
        "is a label of the Service, where no component reads it",
        f"label service web {MODE}-; kubectl -n shop annotate service web {MODE}=Auto --overwrite",
        crossing=ALL,
    ),
    "an annotation behind the deprecated one": RecordedCase(
        "annotation-hidden",
        objects(service({OLD_KEY: "Disabled", MODE: "Auto"}, asks=""), NO_HINTS),
        "connections leave their zone from all 5 nodes: annotation service.kubernetes.io/topology-aware-hints is",
        f"annotate service web {OLD_KEY}-",
        crossing=ALL,
    ),
    "external policy at node ports": RecordedCase(
        "external-clients-dropped",
        objects(service(type="NodePort", externalTrafficPolicy="Local", ports=NODE_PORT)),
        "connections from outside the cluster fail on 2 of 5 nodes: externalTrafficPolicy is Local, so clients",
        "let these clients use nodes with a ready endpoint (a1 b1 c1); or run a pod on each node; or kubectl",
        nodes="a2 b2",
        failing="a2 b2",
    ),
    "external policy at the node port of one family": RecordedCase(
        "external-clients-dropped",
        objects(
            service(
                **TWO_FAMILIES["spec"] | {"type": "NodePort", "externalTrafficPolicy": "Local", "ports": NODE_PORT}
            ),
            of_slice(*EACH_ZONE, endpoint("a2"), endpoint("b2")),
            of_slice(
                *(each | {"addresses": [f"fd00::{number}"]} for number, each in enumerate(EACH_ZONE)), family="IPv6"
            ),
        ),
        "connections from outside the cluster over IPv6 fail on 2 of 5 nodes",
        "let these clients use nodes with a ready endpoint",
        nodes="a2 b2",
        failing="a2 b2",
    ),
    "a port without endpoints beside external policy": RecordedCase(
        "port-without-endpoints",
        objects(
            service(
                type="NodePort",
                externalTrafficPolicy="Local",
                ports=[each | {"nodePort": 30_000 + each["port"]} for each in TWO_PORTS],
            ),
            {**of_slice(*EACH_ZONE), "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]},
        ),
        "connections to port grpc/TCP fail on all 5 nodes: no endpoint has port grpc/TCP",
        failing=ALL,
    ),
    "an annotation that is off": RecordedCase(
        "asks-for-nothing",
        objects(service({MODE: "Disabled"}, asks=""), NO_HINTS),
        "connections leave their zone from all 5 nodes: neither trafficDistribution nor",
        crossing=ALL,
    ),
    "gate off": RecordedCase(
        "gate-off",
        objects(service({OLD_KEY: "auto"}, asks=""), of_slice(*unhinted("a1", "b1", "c1")), version="v1.23.4"),
        "the TopologyAwareHints gate is disabled",
        "1.24",
        crossing=ALL,
    ),
    "an annotation over the wish for the node": RecordedCase(
        "annotation-overrides-field",
        objects(service(AUTO, asks="PreferSameNode"), on=nodes(a2=None, b2=None)),
        "connections do not prefer their own node, from all 3 nodes: annotation service.kubernetes.io/topology-mode is",
        f"annotate service web {MODE}-",
    ),
    "an annotation over the wish for the zone": RecordedCase(
        "annotation-overrides-field",
        objects(service(AUTO), of_slice(*EACH_ZONE[:2], *OF_C), on=nodes(a2=None, b2=None)),
        "connections leave their zone from all 3 nodes: annotation service.kubernetes.io/topology-mode is Auto, and",
        f"annotate service web {MODE}-",
        crossing="a1 b1 c1",
    ),
    "topology keys that no component reads": RecordedCase(
        "topology-keys",
        objects(service(asks="", topologyKeys=["topology.kubernetes.io/zone", "*"]), NO_HINTS),
        "spec.topologyKeys has no effect: Kubernetes 1.22 removed it",
        '"trafficDistribution":"PreferSameZone"',
        crossing=ALL,
    ),
    "a value that is too new": RecordedCase(
        "value-unknown-to-the-controller",
        objects(service(asks="PreferSameNode"), of_slice(*unhinted("a1", "b1", "c1")), version="v1.32.0"),
        "PreferSameNode is unknown to this controller",
        "PreferClose",
        crossing=ALL,
    ),
    "a value that is none": RecordedCase(
        "value-unknown-to-the-controller",
        objects(service(asks="Nearby"), of_slice(*unhinted("a1", "b1", "c1"))),
        "Nearby is unknown",
        crossing=ALL,
    ),
    "a worker without a zone": RecordedCase(
        "node-without-zone",
        objects(
            by_annotation(),
            of_slice(*unhinted("a1", "b1", "c1")),
            on=nodes(a0=node("a0", labels=CONTROL_PLANE), a00=node("a00", ready=False), d1=node("d1")),
            events=[event("TopologyAwareHintsDisabled", "Insufficient Node information")],
        ),
        "node d1 is ready and has no zone label",
        "kubectl label node d1 topology.kubernetes.io/zone=ZONE",
        evidence="Insufficient Node information",
        crossing="a0 a00 a1 a2 b1 b2 c1 d1",
    ),
    "a worker without CPU": RecordedCase(
        "node-without-cpu",
        objects(
            by_annotation(),
            of_slice(*unhinted("a1", "b1", "c1")),
            on=nodes(a0=node("a0", "a", cpu="", labels=CONTROL_PLANE), b2=node("b2", "b", cpu="")),
        ),
        "node b2 is ready and reports no CPU",
        "get node b2",
        crossing="a0 a1 a2 b1 b2 c1",
    ),
    "workers of one zone": RecordedCase(
        "one-zone",
        objects(
            by_annotation(),
            of_slice(*unhinted("a1", "b1", "c1")),
            on=[node("a1", "a"), node("a2", "a"), node("b1", "b", ready=False), node("c0", "c", labels=CONTROL_PLANE)],
        ),
        "all nodes that count (2) are in zone a; not ready, or of the control plane: b1 c0",
        crossing="a1 a2 b1 c0",
    ),
    "fewer endpoints than zones": RecordedCase(
        "too-few-endpoints",
        objects(by_annotation(), of_slice(*unhinted("a1", "b1")), on=nodes(a2=None, b2=None)),
        "2 ready endpoints are too few for 3 zones: each needs one",
        "--replicas=3",
        crossing="a1 b1 c1",
    ),
    "three endpoints over zones of 2:2:1": RecordedCase(
        "floating-point",
        objects(
            by_annotation(),
            of_slice(*unhinted("a1", "b1", "c1")),
            on=AUTO_UNEVEN,
            events=[event("TopologyAwareHintsDisabled", "Unable to allocate minimum required endpoints")],
        ),
        "3 endpoints over 3 zones with this CPU would overload a zone by exactly 20 %, which is allowed",
        "annotate service web service.kubernetes.io/topology-mode-",
        evidence="TopologyAwareHintsDisabled: Unable to allocate",
        crossing="a1 b1 c1",
    ),
    "floating point": RecordedCase(
        "floating-point",
        objects(by_annotation(), of_slice(*unhinted("a1", "a1", "b1", "b1", "c1", "c1")), on=EDGE),
        "exactly 20 %, which is allowed, but rounds up to more in kube-controller-manager",
        "--replicas=",
        crossing="a1 b1 c1",
    ),
    "more than twenty per cent": RecordedCase(
        "overload",
        objects(
            by_annotation(),
            of_slice(*unhinted("a1", "b1", "c1", "a1")),
            on=MORE_THAN_EDGE,
            pods=[owned("web-a1", "a1")],
        ),
        "4 endpoints over 3 zones with this CPU would overload a zone by",
        "scale deployment/web --replicas=",
        evidence="CPU of the zones: a 42%, b 33%, c 25%",
        crossing="a1 b1 c1",
    ),
    "more than twenty per cent beside an autoscaler": RecordedCase(
        "overload",
        objects(
            by_annotation(),
            of_slice(*unhinted("a1", "b1", "c1", "a1")),
            on=MORE_THAN_EDGE,
            pods=[owned("web-a1", "a1")],
            further={"horizontalpodautoscalers": [autoscaler(4, 4)]},
        ),
        remedy='patch horizontalpodautoscaler web -p \'{"spec":{"minReplicas":7,"maxReplicas":7}}\'; or',
        crossing="a1 b1 c1",
    ),
    "what kept hints away stands no more": RecordedCase(
        "hints-not-back",
        objects(
            by_annotation(),
            of_slice(*unhinted("a1", "b1", "c1")),
            on=nodes(a2=None, b2=None),
            events=[event("TopologyAwareHintsDisabled", "Insufficient Node information")],
        ),
        "none of 3 ready endpoints has hints",
        "annotate service web",
        evidence="TopologyAwareHintsDisabled",
        crossing="a1 b1 c1",
    ),
    "hints are due": RecordedCase(
        "hints-not-written",
        objects(service(), of_slice(*unhinted("a1", "b1", "c1"))),
        "none of 3 ready endpoints has hints, though trafficDistribution is PreferSameZone",
        crossing=ALL,
    ),
    "hints in proportion to CPU are due": RecordedCase(
        "hints-not-written",
        objects(by_annotation(), of_slice(*unhinted("a1", "b1", "c1")), on=nodes(a2=None, b2=None)),
        "none of 3 ready endpoints has hints",
        crossing="a1 b1 c1",
    ),
    "an endpoint on an unlabelled node": RecordedCase(
        "endpoint-without-zone",
        objects(service(), of_slice(*EACH_ZONE, endpoint("d1", zone="")), on=nodes(d1=node("d1"))),
        "1 of 4 ready endpoints has no hints, so proxies use no hints at all: endpoint web-d1 is on node d1",
        "kubectl label node d1",
        crossing="a1 a2 b1 b2 c1 d1",
    ),
    "a slice older than the label": RecordedCase(
        "endpoint-without-zone",
        objects(service(), of_slice(*EACH_ZONE, endpoint("a2", zone=""))),
        "its slice was written before node a2 had its label",
        "annotate service web trafficdist.dev/touched",
        crossing=ALL,
    ),
    "endpoints by hand that are on no node": RecordedCase(
        "slice-of-another-manager",
        objects(service(selector=None), of_slice(ELSEWHERE, endpoint("b1", zone="", hints=""), manager="")),
        remedy='[{"op":"add","path":"/endpoints/0/zone","value":"ZONE_OF_10.244.97.101"},'
        '{"op":"add","path":"/endpoints/0/hints","value":{"forZones":[{"name":"ZONE_OF_10.244.97.101"}]}},'
        '{"op":"add","path":"/endpoints/1/zone","value":"b"},'
        '{"op":"add","path":"/endpoints/1/hints","value":{"forZones":[{"name":"b"}]}}]\'; with zones in place of',
        crossing=ALL,
    ),
    "mirrored Endpoints": RecordedCase(
        "slice-of-another-manager",
        objects(
            service(selector=None),
            of_slice(*unhinted("a1", "b1"), manager="endpointslicemirroring-controller.k8s.io"),
        ),
        remedy='\'{"spec":{"trafficDistribution":null}}\'; or write an EndpointSlice with these endpoints and hints',
        crossing=ALL,
    ),
    "an endpoint on a node that is gone": RecordedCase(
        "endpoint-on-a-missing-node",
        objects(service(), of_slice(*EACH_ZONE, endpoint("z9", zone=""))),
        "node z9 of endpoint web-z9 does not exist",
        "delete pod web-z9",
        crossing=ALL,
    ),
    "a slice of another manager": RecordedCase(
        "slice-of-another-manager",
        objects(service(), of_slice(*EACH_ZONE), of_slice(*unhinted("a1"), name="mine", manager="me.example.com")),
        "slice mine is managed by me.example.com",
        crossing=ALL,
    ),
    "slices disagree": RecordedCase(
        "slices-disagree",
        objects(service(), of_slice(*EACH_ZONE), of_slice(*unhinted("a1"), name="web-2")),
        "1 of 4 ready endpoints has no hints, so proxies use no hints at all: look at slice web-2",
        crossing=ALL,
    ),
    "hints cross zones": RecordedCase(
        "hinted-for-another-zone",
        objects(
            by_annotation(),
            of_slice(endpoint("a1"), endpoint("a2", hints="c"), endpoint("b1"), endpoint("a1", number=7)),
            on=nodes(a2=None, b2=None, a1=node("a1", "a", cpu="8")),
        ),
        "web-a2 of zone a for zone c",
        crossing="c1",
    ),
    "hints of somebody else": RecordedCase(
        "hints-of-somebody-else",
        objects(
            service(), of_slice(endpoint("a1"), endpoint("b1"), endpoint("c1", hints="b"), endpoint("a2", hints="c"))
        ),
        "2 endpoints have hints that differ from the request PreferSameZone: web-c1 of zone c is hinted for zone b",
        nodes="b1 b2 c1",
        crossing="b1 b2 c1",
    ),
    "a node without a zone": RecordedCase(
        "client-node-without-zone",
        objects(service(), on=nodes(d1=node("d1"))),
        "connections leave their zone from 1 of 6 nodes: d1 has no zone label",
        "kubectl label node d1",
        nodes="d1",
        crossing="d1",
    ),
    "a zone without an endpoint": RecordedCase(
        "zone-without-endpoint",
        objects(service(), of_slice(endpoint("a1"), endpoint("b1"))),
        "connections leave their zone from 1 of 5 nodes: zone c has no endpoint",
        "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone",
        nodes="c1",
        evidence="1 in zone a, 1 in zone b",
        crossing="c1",
    ),
    "a zone whose pod is not ready": RecordedCase(
        "zone-not-ready",
        objects(service(), of_slice(endpoint("a1"), endpoint("b1"), endpoint("c1", hints="", ready=False))),
        "no endpoint of zone c is ready: web-c1",
        "describe pod web-c1",
        nodes="c1",
        crossing="c1",
    ),
    "a zone that a rollout empties": RecordedCase(
        "zone-terminating",
        objects(
            service(),
            of_slice(
                endpoint("a1"), endpoint("b1"), endpoint("c1", hints="", ready=False, serving=True, terminating=True)
            ),
        ),
        "the endpoints of zone c are terminating: web-c1",
        "maxUnavailable: 0",
        nodes="c1",
        crossing="c1",
    ),
    "a zone whose ready pod is in no slice": RecordedCase(
        "pod-in-no-slice",
        objects(service(), of_slice(endpoint("a1"), endpoint("b1")), pods=[owned("web-7f-c", "c1")]),
        "1 of 5 nodes: pod web-7f-c is ready and matched by the selector, but in no EndpointSlice",
        "grep shop/web",
        nodes="c1",
        crossing="c1",
    ),
    "a zone with an endpoint that ends and one that is not ready": RecordedCase(
        "zone-not-ready",
        objects(
            service(),
            of_slice(
                endpoint("a1"),
                endpoint("b1"),
                endpoint("c1", number=1, hints="", ready=False, terminating=True),
                endpoint("c1", number=2, hints="", ready=False),
            ),
        ),
        "no endpoint of zone c is ready: web-c11 web-c12",
        "describe pod web-c12",
        nodes="c1",
        crossing="c1",
    ),
    "a proxy that knows only one of two policies": RecordedCase(
        "proxy-too-old",
        objects(
            service(type="NodePort", internalTrafficPolicy="Local", externalTrafficPolicy="Local", ports=NODE_PORT),
            of_slice(*(endpoint(each) for each in ZONES)),
            proxies=[*(proxy(each) for each in ("a1", "a2", "b1", "b2")), proxy("c1", "v1.22.3")],
        ),
        "1 node runs a proxy that does not follow internalTrafficPolicy Local next to externalTrafficPolicy Local "
        "(kubernetes/kubernetes#105470), as kube-proxy does since 1.24",
        "upgrade kube-proxy on c1 to v1.37.0",
        nodes="c1",
        crossing="c1",
    ),
    "a node without a proxy that is old": RecordedCase(
        "proxy-too-old",
        objects(
            service(asks="PreferSameNode"),
            NODE_HINTS,
            on=nodes(b1=node("b1", "b", version="v1.33.0"), b2=node("b2", "b")),
            proxies=[proxy(each) for each in ("a1", "a2", "c1")],
        ),
        "no proxy was seen on b1; kube-proxy of the release of kubelet v1.33.0 would not use hints for nodes, as it "
        "does since 1.34",
        "run kube-proxy v1.37.0 on b1",
        nodes="b1",
    ),
    "a zone that no hint names": RecordedCase(
        "zone-not-hinted",
        objects(
            by_annotation(),
            of_slice(*EACH_ZONE[:2], *(endpoint(each, number=7, hints=each[0]) for each in ("a1", "b1")), *OF_C),
            on=nodes(a2=None, b2=None),
        ),
        "zone c has 2 ready endpoints, but no hints for it",
        nodes="c1",
        crossing="a1 b1 c1",
    ),
    "proxies before the feature": RecordedCase(
        "proxy-too-old",
        objects(
            service(),
            on=nodes(a1=node("a1", "a", version="v1.22.1"), b1=node("b1", "b", version="v1.29.3")),
        ),
        "as kube-proxy does since 1.31: kube-proxy, if it is of the release of kubelet v1.22.1",
        nodes="a1 b1",
        crossing="a1 b1",
    ),
    "a proxy that is older than its node": RecordedCase(
        "proxy-too-old",
        objects(service(), proxies=[proxy("a1", "v1.29.3"), proxy("b1")]),
        "registry.k8s.io/kube-proxy:v1.29.3",
        nodes="a1",
        crossing="a1",
    ),
    "nobody is ready in one family": RecordedCase(
        "no-ready-endpoint",
        objects(TWO_FAMILIES, of_slice(*EACH_ZONE), of_slice({**IPV6, "conditions": {"ready": False}}, family="IPv6")),
        "connections over IPv6 fail on all 5 nodes: the one endpoint is not ready",
        failing=ALL,
    ),
    "a zone without an endpoint in one family": RecordedCase(
        "zone-without-port",
        objects(TWO_FAMILIES, of_slice(*EACH_ZONE), of_slice(IPV6, family="IPv6", name="web-6")),
        "over IPv6 leave their zone from 3 of 5 nodes: zones b c have ready endpoints only for other ports or IP "
        "families: web-b1 web-c1",
        "give the pods addresses of family IPv6",
        nodes="b1 b2 c1",
        crossing="b1 b2 c1",
    ),
    "a gate that the controller has off": RecordedCase(
        "gate-off",
        objects(
            service(),
            NO_HINTS,
            version="v1.34.1",
            gates={"kube-controller-manager": {"PreferSameTrafficDistribution": False}},
        ),
        "feature gate PreferSameTrafficDistribution is off in kube-controller-manager, as its metrics or settings show",
        "start kube-controller-manager with --feature-gates=PreferSameTrafficDistribution=true",
        evidence="PreferSameZone is unknown to this controller",
        crossing=ALL,
    ),
    "a gate that the API server has off": RecordedCase(
        "asks-for-nothing",
        objects(
            service(asks=""),
            NO_HINTS,
            version="v1.32.1",
            gates={"kube-apiserver": {"ServiceTrafficDistribution": False}},
        ),
        "neither trafficDistribution nor",
        "start kube-apiserver with --feature-gates=ServiceTrafficDistribution=true; then kubectl",
        evidence="it drops trafficDistribution",
        crossing=ALL,
    ),
    "a gate that a proxy has off": RecordedCase(
        "gate-off",
        objects(
            service(),
            on=nodes(a1=node("a1", "a", version="v1.30.1"), b1=node("b1", "b", version="v1.30.1")),
            gates={"kube-proxy 1.30": {"TopologyAwareHints": False}},
        ),
        "2 nodes run a kube-proxy with feature gate TopologyAwareHints off, as its metrics or settings show",
        "featureGates",
        nodes="a1 b1",
        crossing="a1 b1",
    ),
    "a controller whose Lease has ended": RecordedCase(
        "controller-gone",
        objects(service(), NO_HINTS, leases=[lease(renewed="2026-11-22T09:50:00Z")], at=AT),
        "kube-controller-manager is not running",
        "get pods -l component=kube-controller-manager",
        evidence="held by cp-1, renewed 2026-11-22T09:50:00Z, read at 2026-11-22T10:00:00Z",
        crossing=ALL,
    ),
    "a controller that gave its Lease up": RecordedCase(
        "controller-gone",
        objects(service(), NO_HINTS, leases=[lease(holder="")], at=AT),
        evidence="held by nobody",
        crossing=ALL,
    ),
    "a controller whose Lease is fresh": RecordedCase(
        "hints-not-written", objects(service(), NO_HINTS, leases=[lease()], at=AT), evidence="renewed", crossing=ALL
    ),
    "an endpoint whose node has moved": RecordedCase(
        "endpoint-of-a-former-zone",
        objects(service(), on=nodes(c1=labelled("c1", "d")), proxies=[proxy("c1", started=EARLY)]),
        "1 endpoint has an old zone: web-c1 has zone c, but node c1 is in zone d",
        "annotate service web trafficdist.dev/touched",
        nodes="c1",
        evidence="zone label of c1 written by kubectl-label at 2026-11-22T10:00:00Z",
        crossing="c1",
    ),
    "only endpoints that end": RecordedCase(
        "terminating-only",
        objects(service(), of_slice(ENDING)),
        "from 3 of 5 nodes: no endpoint is ready, and terminating endpoints that still serve (web-a1) take connections",
        "wait for new pods",
        nodes="b1 b2 c1",
        crossing="b1 b2 c1",
    ),
}
METRICS = {"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": "metrics"}


def some_name(target: str, **spec: object) -> Objects:
    """Return a cluster whose pods of zones a and b have a port of this name, and that of zone c has not."""
    pods = [pod(f"web-{each}", each) for each in ("a1", "b1", "c1")]
    for each in pods[:2]:
        each["spec"]["containers"] = [
            {"name": "web", "image": "web", "ports": [{"name": target, "containerPort": 9100}]}
        ]
    number = {"name": "http", "port": 8080, "protocol": "TCP"}
    ours = {**of_slice(*EACH_ZONE[:2]), "ports": [number, {"name": target, "port": 9100, "protocol": "TCP"}]}
    others = {**of_slice(EACH_ZONE[2], name="web-2"), "ports": [number]}
    on = nodes(a2=None, b2=None) if spec else nodes()
    return objects(service(ports=[*OF_HTTP, METRICS], **spec), ours, others, on=on, pods=pods)


BY_HAND = {**of_slice(*EACH_ZONE, manager="me.example.com"), "ports": [{"port": 8080, "protocol": "TCP"}]}
ROWS |= {
    "a slice whose port has another name": RecordedCase(
        "port-name-differs",
        objects(service(ports=OF_HTTP, selector=None), BY_HAND),
        "connections fail on all 5 nodes: no endpoint has port http/TCP, because the slices name their ports otherwise",
        '[{"op":"add","path":"/ports/0/name","value":"http"}]',
        failing=ALL,
    ),
    "a slice of another protocol": RecordedCase(
        "protocol-without-endpoints",
        objects(service(ports=[{"port": 80, "protocol": "UDP", "targetPort": 8080}])),
        "no endpoint has port 80/UDP, because the slices have other protocols ('' TCP)",
        failing=ALL,
    ),
    "a target port that no pod names": RecordedCase(
        "target-port-of-no-pod",
        objects(
            service(ports=[{**OF_HTTP[0], "targetPort": "web"}]),
            {**of_slice(*EACH_ZONE), "ports": []},
            pods=[pod("web-a1", "a1")],
        ),
        "because no pod has a port named 'web'",
        "targetPort",
        failing=ALL,
    ),
    "a target port that some pods name": RecordedCase(
        "target-port-of-some-pods",
        some_name("metrics"),
        "connections to port metrics/TCP leave their zone from 1 of 5 nodes: pod web-c1 has no port named metrics",
        '"path":"/spec/ports/1/targetPort","value":9100}]',
        nodes="c1",
        crossing="c1",
    ),
    "a target port that some pods name beside internal policy": RecordedCase(
        "target-port-of-some-pods",
        some_name("metrics", internalTrafficPolicy="Local"),
        "connections to port metrics/TCP fail on 1 of 3 nodes: pod web-c1 has no port named metrics",
        "in a Deployment that replaces these pods, which no workload owns: ports",
        nodes="c1",
        failing="c1",
    ),
    "one of two ports without endpoints": RecordedCase(
        "port-without-endpoints",
        objects(
            service(ports=TWO_PORTS),
            {**of_slice(*EACH_ZONE), "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]},
        ),
        "connections to port grpc/TCP fail on all 5 nodes: no endpoint has port grpc/TCP",
        failing=ALL,
    ),
    "a family without slices": RecordedCase(
        "family-without-endpoints",
        objects(TWO_FAMILIES),
        "connections over IPv6 fail on all 5 nodes: no endpoint has an address of family IPv6",
        'if clients need no IPv6, kubectl -n shop patch service web -p \'{"spec":{"ipFamilyPolicy":"SingleStack"}}\'',
        failing=ALL,
    ),
    "a first family without slices": RecordedCase(
        "first-family-without-endpoints",
        objects(FIRST_IPV6),
        "connections over IPv6 fail on all 5 nodes: no endpoint has an address of family IPv6",
        '"ipFamilies":["IPv4"],"clusterIP":"10.96.0.9","clusterIPs":["10.96.0.9"]}\' | kubectl replace --force -f -',
        failing=ALL,
    ),
    "an only family without slices": RecordedCase(
        "first-family-without-endpoints",
        objects(ONLY_IPV6),
        "connections fail on all 5 nodes: no endpoint has an address of family IPv6, which is the first family",
        '.spec += {"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"]}\' | kubectl replace --force -f -',
        failing=ALL,
    ),
    "nodes whose program reads no hints": RecordedCase(
        "not-kube-proxy",
        objects(service(), proxies=[agent("a1", "kube-router", "kube-router:v2.2.1", k8s_app="kube-router")]),
        "connections leave their zone from 1 of 5 nodes: on 1 node, kube-router 2.2.1 serves Services with --run",
        "--probe",
        nodes="a1",
        crossing="a1",
    ),
    "same node with proxies that know zones": RecordedCase(
        "proxy-too-old",
        objects(service(asks="PreferSameNode"), NODE_HINTS, proxies=[proxy("a1", "v1.32.4"), proxy("c1", "v1.32.4")]),
        "connections do not prefer their own node, from 2 of 5 nodes: 2 nodes run a proxy that does not use "
        "hints for nodes, as kube-proxy does since 1.34",
        "upgrade kube-proxy on a1 c1 to v1.37.0",
        nodes="a1 c1",
    ),
}
ONE = of_slice(endpoint("a1"))
NO_ZONES = [node(each) for each in ("a1", "b1", "c1")]
HAD_BETA = [
    {**each, "metadata": {**each["metadata"], "labels": {BETA: each["metadata"]["name"][0]}}} for each in NO_ZONES
]
BARE = of_slice(*(endpoint(each, zone="") for each in ("a1", "b1", "c1")))
CONSTRAINT = "in the pod template of {}: topologySpreadConstraints: [{{maxSkew: 1, ".format
ROWS |= {
    "one pod for three zones": RecordedCase(
        "zone-without-endpoint",
        objects(service(), ONE, pods=[owned("web-a1", "a1")]),
        "from 3 of 5 nodes: zones b c have no endpoint: their nodes use those of other zones",
        "kubectl -n shop scale deployment/web --replicas=3; and, " + CONSTRAINT("deployment/web"),
        nodes="b1 b2 c1",
        crossing="b1 b2 c1",
    ),
    "one pod of an autoscaler for three zones": RecordedCase(
        "zone-without-endpoint",
        objects(
            service(),
            ONE,
            pods=[owned("web-a1", "a1", topologySpreadConstraints=SPREAD)],
            further={"horizontalpodautoscalers": [autoscaler(1, 1)]},
        ),
        remedy='patch horizontalpodautoscaler web -p \'{"spec":{"minReplicas":3,"maxReplicas":3}}\'',
        nodes="b1 b2 c1",
        crossing="b1 b2 c1",
    ),
    "enough pods in too few zones": RecordedCase(
        "zone-without-endpoint",
        objects(
            service(),
            of_slice(endpoint("a1"), endpoint("a2"), endpoint("b1")),
            pods=[owned(f"web-{each}", each, by="StatefulSet/web") for each in ("a1", "a2", "b1")],
        ),
        remedy=CONSTRAINT("statefulset/web"),
        nodes="c1",
        crossing="c1",
    ),
    "enough pods that have the constraint": RecordedCase(
        "zone-without-endpoint",
        objects(
            service(),
            of_slice(endpoint("a1"), endpoint("a2"), endpoint("b1")),
            pods=[owned("web-a1", "a1", topologySpreadConstraints=SPREAD)],
        ),
        remedy="kubectl -n shop rollout restart deployment/web",
        nodes="c1",
        crossing="c1",
    ),
    "a zone whose node takes no pods": RecordedCase(
        "zone-without-endpoint",
        objects(service(), of_slice(*EACH_ZONE[:2]), on=nodes(c1=tainted("c1", "c"))),
        remedy="otherwise let a node of zone c take pods (c1 is tainted with node-role.kubernetes.io/control-plane)",
        nodes="c1",
        crossing="c1",
    ),
    "a zone that a DaemonSet leaves out": RecordedCase(
        "zone-without-endpoint",
        objects(
            service(),
            of_slice(*EACH_ZONE[:2]),
            on=nodes(c1=tainted("c1", "c")),
            pods=[owned("web-a1", "a1", by="DaemonSet/web")],
        ),
        remedy="if no client runs on c1; otherwise in the pod template of daemonset/web, add tolerations: [{key: ",
        nodes="c1",
        crossing="c1",
    ),
    "internal policy on a node that a DaemonSet leaves out": RecordedCase(
        "internal-policy-local",
        objects(
            service(asks="", internalTrafficPolicy="Local"),
            on=nodes(a2=None, b2=None, d1=tainted("d1", "c")),
            pods=[owned("web-a1", "a1", by="DaemonSet/web")],
        ),
        remedy="[{key: node-role.kubernetes.io/control-plane, operator: Exists}]; or kubectl -n shop patch",
        nodes="d1",
        failing="d1",
    ),
    "nodes without zones": RecordedCase(
        "endpoint-without-zone",
        objects(service(), BARE, on=NO_ZONES),
        "endpoints web-a1 web-b1 web-c1 are on nodes a1 b1 c1, which have no zone label",
        "kubectl label node a1 b1 c1 topology.kubernetes.io/zone=ZONE; ",
        crossing="a1 b1 c1",
    ),
    "nodes with the zone label of old releases": RecordedCase(
        "node-without-zone",
        objects(by_annotation(), BARE, on=HAD_BETA),
        "nodes a1 b1 c1 are ready and have no zone label",
        f"kubectl label node -l '{BETA}=b,!topology.kubernetes.io/zone' topology.kubernetes.io/zone=b; ",
        crossing="a1 b1 c1",
    ),
    "a pod that stands in two slices": RecordedCase(
        "slices-disagree",
        objects(service(), of_slice(*EACH_ZONE), of_slice(endpoint("a1", hints=""), name="web-2")),
        "1 of 3 ready endpoints has no hints",
        crossing=ALL,
    ),
}
GONE = endpoint("c1", ready=False, serving=False, terminating=True, hints="")
REUSED = {**endpoint("b1"), "addresses": GONE["addresses"]}
TWO_EACH = of_slice(*EACH_ZONE, endpoint("a2", number=2), endpoint("b2", number=2), endpoint("c1", number=2))
PODS = [owned("web-a1", "a1")]
WAYPOINT = {"istio.io/use-waypoint": "gate"}


def further(asked: Object | None = None, *slices: Object, pods: Sequence[Object] = PODS, **found: Object) -> Objects:
    """Return a cluster that also has an object of these resources."""
    return objects(asked, *slices, pods=pods, further={name: [each] for name, each in found.items()})


@dataclass(frozen=True)
class HarmlessCase:
    """A cluster in which nothing goes wrong, a finding about it, and the nodes and the beginning of its remedy."""

    cause: str
    seen: Objects
    remedy: str
    nodes: str = ""


SERVICE = "kubectl -n shop {} service web {}".format
UNASK = SERVICE("annotate", "service.kubernetes.io/topology-mode-")
OTHERWISE = "nothing, if the mesh should choose for clients of shop; otherwise kubectl {} namespace shop {}-".format
PATCH = "kubectl -n shop patch {} web -p '{{\"spec\":{}}}'".format
ONE_BY_ONE = '{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1,"maxUnavailable":0}}}'
ASK = PATCH("service", '{"trafficDistribution":"PreferSameZone"}')
TOUCH = SERVICE("annotate", 'trafficdist.dev/touched="$(date +%s)" --overwrite')
NOTES = {
    "clients with sidecars": HarmlessCase(
        "clients-choose-endpoints",
        objects(service(), pods=[pod("web-a1", "a1", **{"app": "web", "security.istio.io/tlsMode": "istio"})]),
        "check the locality settings of the mesh or the ingress controller",
    ),
    "a namespace in an ambient mesh": HarmlessCase(
        "namespace-in-an-ambient-mesh",
        further(namespaces=namespace(**{"istio.io/dataplane-mode": "ambient"})),
        OTHERWISE("label", "istio.io/dataplane-mode"),
    ),
    "a namespace with sidecars of Istio": HarmlessCase(
        "namespace-injects-sidecars",
        further(namespaces=namespace(**{"istio-injection": "enabled"})),
        OTHERWISE("label", "istio-injection"),
    ),
    "a namespace with sidecars of Linkerd": HarmlessCase(
        "namespace-injects-sidecars",
        further(namespaces=namespace(annotations={"linkerd.io/inject": "enabled"})),
        OTHERWISE("annotate", "linkerd.io/inject"),
    ),
    "a namespace with sidecars of Kuma": HarmlessCase(
        "namespace-injects-sidecars",
        further(namespaces=namespace(**{"kuma.io/sidecar-injection": "enabled"})),
        OTHERWISE("label", "kuma.io/sidecar-injection"),
    ),
    "a waypoint of the Service": HarmlessCase(
        "service-behind-a-proxy",
        objects(service(labels=WAYPOINT)),
        SERVICE("label", "istio.io/use-waypoint=none --overwrite"),
    ),
    "a waypoint of the namespace": HarmlessCase(
        "service-behind-a-proxy",
        further(namespaces=namespace(**WAYPOINT)),
        SERVICE("label", "istio.io/use-waypoint=none --overwrite"),
    ),
    "the Envoy of Cilium": HarmlessCase(
        "service-behind-a-proxy",
        objects(service({"service.cilium.io/lb-l7": "enabled"})),
        SERVICE("annotate", "service.cilium.io/lb-l7-"),
    ),
    "an Ingress of ingress-nginx": HarmlessCase(
        "ingress-to-endpoints",
        further(ingresses=ingress("nginx-public")),
        "kubectl -n shop annotate ingress front nginx.ingress.kubernetes.io/service-upstream=true --overwrite",
    ),
    "an Ingress of Traefik": HarmlessCase(
        "ingress-to-endpoints",
        further(ingresses=ingress("traefik")),
        SERVICE("annotate", "traefik.ingress.kubernetes.io/service.nativelb=true --overwrite"),
    ),
    "an Ingress of Kong": HarmlessCase(
        "ingress-to-endpoints",
        further(ingresses=ingress("kong")),
        SERVICE("annotate", "ingress.kubernetes.io/service-upstream=true --overwrite"),
    ),
    "a port for gRPC": HarmlessCase(
        "long-lived-connections",
        objects(service(ports=[{"port": 80, "protocol": "TCP", "targetPort": 8080, "appProtocol": "grpc"}])),
        "nothing, if clients connect again from time to time",
    ),
    "session affinity": HarmlessCase(
        "session-affinity",
        objects(service(sessionAffinity="ClientIP")),
        PATCH("service", '{"sessionAffinity":"None"}'),
    ),
    "pods that are published before they are ready": HarmlessCase(
        "publishes-unready-pods",
        objects(service(publishNotReadyAddresses=True)),
        PATCH("service", '{"publishNotReadyAddresses":false}'),
    ),
    "a policy beside the field": HarmlessCase(
        "policy-hides-field",
        objects(service(internalTrafficPolicy="Local"), on=nodes(a2=None, b2=None)),
        "nothing, if the policy is intended; otherwise " + PATCH("service", '{"internalTrafficPolicy":"Cluster"}'),
    ),
    "a load balancer of AWS to pods": HarmlessCase(
        "load-balancer-to-pods",
        objects(
            service(
                {
                    "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type": "ip",
                    "service.beta.kubernetes.io/aws-load-balancer-type": "external",
                },
                type="LoadBalancer",
            )
        ),
        "check the zone settings of the load balancer",
    ),
    "a load balancer of an Ingress to pods": HarmlessCase(
        "load-balancer-to-pods",
        further(ingresses=ingress("alb", {"alb.ingress.kubernetes.io/target-type": "ip"})),
        "check the zone settings of the load balancer",
    ),
    "network endpoint groups": HarmlessCase(
        "load-balancer-to-pods",
        objects(service({"cloud.google.com/neg": '{"ingress": true}'})),
        "check the zone settings of the load balancer",
    ),
    "a misspelt annotation beside the field": HarmlessCase(
        "annotation-misspelt",
        objects(service({"service.kubernetes.io/topology-awareness": "Auto"})),
        SERVICE("annotate", "service.kubernetes.io/topology-awareness-"),
    ),
    "the annotation of a mesh": HarmlessCase(
        "annotation-of-a-mesh",
        objects(service({"networking.istio.io/traffic-distribution": "PreferClose"}, asks=""), NO_HINTS),
        PATCH("service", '{"trafficDistribution":"PreferSameZone"}'),
    ),
    "an address of two endpoints": HarmlessCase(
        "address-of-two-endpoints",
        objects(service(), of_slice(*EACH_ZONE[:2], GONE, REUSED), on=nodes(c1=None)),
        "nothing; proxies use the ready endpoint",
    ),
    "an endpoint in two slices": HarmlessCase(
        "endpoint-in-two-slices",
        objects(service(), of_slice(*EACH_ZONE), of_slice(EACH_ZONE[0], name="web-2")),
        "nothing, unless the endpoint stays in several slices",
    ),
    "a hint for a zone without nodes": HarmlessCase(
        "hint-for-a-zone-without-nodes",
        objects(service(), of_slice(endpoint("a1", hints="az"), endpoint("b1"), endpoint("c1"))),
        TOUCH,
    ),
    "hints that nobody asked for": HarmlessCase("hints-nobody-asked-for", objects(service(asks="")), TOUCH),
    "an endpoint on a node that is not ready": HarmlessCase(
        "endpoint-on-a-node-not-ready",
        objects(service(), on=nodes(c1=node("c1", "c", ready=False))),
        "kubectl describe node c1",
        "c1",
    ),
    "nodes of the control plane": HarmlessCase(
        "control-plane-not-counted",
        objects(by_annotation(), on=nodes(a2=None, b2=None, c0=node("c0", "c", labels=CONTROL_PLANE))),
        f"nothing, unless these nodes run ordinary pods; otherwise {UNASK}; {ASK}",
        "c0",
    ),
    "an annotation that is no value": HarmlessCase(
        "annotation-unknown", objects(service({MODE: "AUTO"})), f"nothing, or {UNASK}"
    ),
    "two annotations": HarmlessCase(
        "annotation-hidden", objects(service({OLD_KEY: "", MODE: "Auto"})), SERVICE("annotate", f"{OLD_KEY}-")
    ),
    "annotation and field": HarmlessCase(
        "annotation-overrides-field", objects(service(AUTO), on=nodes(a2=None, b2=None)), UNASK
    ),
    "external policy of a load balancer": HarmlessCase(
        "external-policy-local",
        objects(service(type="LoadBalancer", externalTrafficPolicy="Local", ports=NODE_PORT)),
        "nothing, if the Service must see the addresses of its clients",
        "a2 b2",
    ),
    "clients outside": HarmlessCase(
        "external-clients",
        objects(service(type="LoadBalancer")),
        "let the load balancer send clients to nodes in their own zone",
    ),
    "hints for nodes": HarmlessCase(
        "node-hints-not-asked",
        objects(service(), NODE_HINTS),
        "nothing, if they are intended; otherwise find out which client writes them",
        "a1 b1 c1",
    ),
    "a proxy that is not ready": HarmlessCase(
        "proxy-not-ready",
        objects(service(), proxies=[proxy("a1", ready=False)]),
        "kubectl -n kube-system logs kube-proxy-a1",
        "a1",
    ),
    "a proxy that has not started": HarmlessCase(
        "proxy-not-ready",
        objects(service(), proxies=[{**proxy("a1"), "status": {"phase": "Pending"}}]),
        "kubectl -n kube-system describe pod kube-proxy-a1",
        "a1",
    ),
    "a node without a proxy": HarmlessCase(
        "node-without-proxy",
        objects(service(), proxies=[proxy(each) for each in ZONES if each != "a1"]),
        "kubectl -n kube-system get daemonsets; kubectl describe node a1",
        "a1",
    ),
    "a label that is newer than the proxy": HarmlessCase(
        "zone-label-changed",
        objects(service(), on=nodes(a2=labelled("a2", "a")), proxies=[proxy("a2", started=EARLY)]),
        "nothing; --probe shows whether the proxy has it",
        "a2",
    ),
    "an autoscaler with fewer pods than zones": HarmlessCase(
        "autoscaler-below-zones",
        further(horizontalpodautoscalers=autoscaler(1, 10)),
        PATCH("horizontalpodautoscaler", '{"minReplicas":3}'),
    ),
    "an autoscaler whose most pods are fewer than zones": HarmlessCase(
        "autoscaler-below-zones",
        further(horizontalpodautoscalers=autoscaler(1, 2)),
        PATCH("horizontalpodautoscaler", '{"minReplicas":3,"maxReplicas":3}'),
    ),
    "a rollout that takes the only endpoint of a zone": HarmlessCase(
        "rollout-may-empty-a-zone",
        further(service(), of_slice(*EACH_ZONE, endpoint("a2")), deployments=deployment(4, 1)),
        PATCH("deployment/web", ONE_BY_ONE).replace(" web -p", " -p"),
        "b1 b2 c1",
    ),
    "a Deployment that ends all pods first": HarmlessCase(
        "recreate-empties-all-zones",
        further(deployments=deployment(3, 3, type="Recreate")),
        PATCH("deployment/web", ONE_BY_ONE).replace(" web -p", " -p"),
    ),
    "evictions of the only endpoint of a zone": HarmlessCase(
        "budget-permits-an-empty-zone",
        further(poddisruptionbudgets=budget(1, minAvailable=2)),
        "kubectl -n shop scale deployment/web --replicas=6; "
        + PATCH("poddisruptionbudget", '{"maxUnavailable":1,"minAvailable":null}'),
        ALL,
    ),
    "evictions of all endpoints of a zone": HarmlessCase(
        "budget-permits-an-empty-zone",
        further(service(), TWO_EACH, poddisruptionbudgets=budget(3, minAvailable="50%")),
        PATCH("poddisruptionbudget", '{"maxUnavailable":1,"minAvailable":null}'),
        ALL,
    ),
    "evictions beside an autoscaler": HarmlessCase(
        "budget-permits-an-empty-zone",
        objects(
            pods=PODS,
            further={
                "poddisruptionbudgets": [budget(1, maxUnavailable=1)],
                "horizontalpodautoscalers": [autoscaler(3, 9)],
            },
        ),
        PATCH("horizontalpodautoscaler", '{"minReplicas":6}'),
        ALL,
    ),
    "a rollout by the manifest of a Deployment": HarmlessCase(
        "rollout-may-empty-a-zone",
        objects(further={"deployments": [manifest(deployment(3, 3, rollingUpdate={"maxUnavailable": 1}))]}),
        PATCH("deployment/web", ONE_BY_ONE).replace(" web -p", " -p"),
        ALL,
    ),
    "evictions by the manifest of a budget": HarmlessCase(
        "budget-permits-an-empty-zone",
        further(deployments=deployment(3, 3), poddisruptionbudgets=manifest(budget(0, maxUnavailable="100%"))),
        "kubectl -n shop scale deployment/web --replicas=6",
        ALL,
    ),
    "evictions by the manifest of a budget with a minimum": HarmlessCase(
        "budget-permits-an-empty-zone",
        further(service(), TWO_EACH, poddisruptionbudgets=manifest(budget(0, minAvailable="50%"))),
        PATCH("poddisruptionbudget", '{"maxUnavailable":1,"minAvailable":null}'),
        ALL,
    ),
    "evictions by a budget whose spec is empty, and so not recorded": HarmlessCase(
        "budget-permits-an-empty-zone",
        further(service(), TWO_EACH, poddisruptionbudgets={**budget(2), "spec": None}),
        PATCH("poddisruptionbudget", '{"maxUnavailable":1,"minAvailable":null}'),
        ALL,
    ),
    "an autoscaler by manifests, without pods": HarmlessCase(
        "autoscaler-below-zones",
        objects(further={"deployments": [manifest(deployment(3, 3))], "horizontalpodautoscalers": [autoscaler(1, 10)]}),
        PATCH("horizontalpodautoscaler", '{"minReplicas":3}'),
    ),
    "an autoscaler beside evictions": HarmlessCase(
        "autoscaler-below-zones",
        further(horizontalpodautoscalers=autoscaler(1, 4), poddisruptionbudgets=budget(1, maxUnavailable=1)),
        PATCH("horizontalpodautoscaler", '{"minReplicas":6,"maxReplicas":6}'),
    ),
    "a ReplicaSet without the hash, beside a Deployment": HarmlessCase(
        "budget-permits-an-empty-zone",
        further(
            pods=[owned("web-1", "a1", by="ReplicaSet/web-6f")],
            deployments=deployment(3, 3),
            poddisruptionbudgets=budget(1, maxUnavailable=1),
        ),
        "kubectl -n shop scale replicaset/web-6f --replicas=6",
        ALL,
    ),
    "a cordoned zone with another node": HarmlessCase(
        "drain-empties-a-zone",
        objects(
            on=nodes(c1=cordoned("c1", "c"), c2=node("c2", "c")),
            pods=[owned(f"web-{each}", each) for each in ("a1", "b1", "c1")],
        ),
        CONSTRAINT("deployment/web"),
        "c1 c2",
    ),
    "a cordoned zone with another node for pods that are spread": HarmlessCase(
        "drain-empties-a-zone",
        objects(
            on=nodes(c1=cordoned("c1", "c"), c2=node("c2", "c")),
            pods=[owned("web-a1", "a1", topologySpreadConstraints=SPREAD)],
        ),
        "kubectl -n shop rollout restart deployment/web; drain when",
        "c1 c2",
    ),
    "a cordoned node with all endpoints of a zone": HarmlessCase(
        "drain-empties-a-zone",
        objects(on=nodes(c1=cordoned("c1", "c"))),
        "before the drain, add a node to zone c",
        "c1",
    ),
}
