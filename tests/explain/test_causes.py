"""`explain` reports each cause with its id, nodes and remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explain.case import Case
from explain.causes import causes
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, _unexplained, diagnose
from explain.objects import Objects
from explain.routes import routes
from explain.text import answer
from harness.api.client import Object
from reference.features import Features, Reading
from tests.explain.causes_page import stale
from tests.explain.cluster_builders import (
    AUTO,
    EACH_ZONE,
    ZONES,
    agent,
    by_annotation,
    endpoint,
    labelled,
    nodes,
    objects,
    of_slice,
    proxy,
    service,
)
from tests.explain.recorded_cases import (
    AT,
    EARLY,
    NO_HINTS,
    NODE_HINTS,
    NODE_PORT,
    NOTES,
    ROWS,
    HarmlessCase,
    RecordedCase,
)


def diagnosis(seen: Objects, follow: Reading = "released") -> Diagnosis:
    return diagnose(seen.services[0], Cluster(seen, follow))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_first_cause_is_named_with_nodes_evidence_and_remedy(row: RecordedCase) -> None:
    found = diagnosis(row.seen)
    first = found.findings[0]
    assert first.cause.id == row.cause, (answer(found), found.findings)
    assert row.says in answer(found)
    assert row.remedy in first.remedy or (not first.remedy and row.remedy in first.cause.remedy)
    assert " ".join(first.nodes) == row.nodes
    assert any(row.evidence in each for each in first.evidence) or not row.evidence
    assert (" ".join(found.crossing), " ".join(found.failing)) == (row.crossing, row.failing)


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_harmless_finding_is_a_note_with_its_nodes_and_remedy(note: HarmlessCase) -> None:
    found = diagnosis(note.seen)
    (told,) = [each for each in found.findings if each.cause.id == note.cause]
    assert " ".join(told.nodes) == note.nodes
    assert (told.remedy or told.cause.remedy).startswith(note.remedy)
    assert (found.wanting, told.severity) == (False, "info")


def test_proxy_that_reads_its_zone_at_start_needs_a_restart() -> None:
    calico, others = proxy("c1", started=EARLY), [proxy(each) for each in ZONES if each != "c1"]
    calico["metadata"] |= {"name": "calico-node-x", "labels": {"k8s-app": "calico-node"}}
    calico["spec"]["containers"][0]["image"] = "calico/node:master"
    found = diagnosis(objects(service(), on=nodes(c1=labelled("c1", "c", "csr")), proxies=[*others, calico]))
    other, first = found.findings
    assert (other.cause.id, other.nodes, found.uncertain) == ("not-kube-proxy", ("c1",), ("c1",))
    assert (first.cause.id, first.nodes) == ("zone-label-changed", ("c1",))
    assert first.remedy == "kubectl -n kube-system delete pod calico-node-x"
    assert first.evidence == (f"zone label of c1 written by csr at {AT}, calico-node-x started at {EARLY}",)


def test_no_cause_is_reported_if_every_zone_has_an_endpoint() -> None:
    found = diagnosis(objects())
    assert (found.findings, found.crossing) == ((), ())
    assert answer(found) == "connections stay in the zone of the client, from all 5 nodes, if kube-proxy serves them"


@pytest.mark.parametrize("asks", ["PreferSameZone", "Local"])
@pytest.mark.parametrize("doubtful", [None, proxy("a1", ready=False), {**proxy("a1"), "status": {"phase": "Pending"}}])
def test_nothing_is_promised_for_a_node_without_a_ready_proxy(asks: str, doubtful: Object | None) -> None:
    asked = service(internalTrafficPolicy="Local", asks="") if asks == "Local" else service()
    others = [proxy(each) for each in ZONES if each != "a1"]
    on_all = of_slice(*(endpoint(each) for each in ZONES))
    found = diagnosis(objects(asked, on_all, proxies=[*others, *([doubtful] if doubtful else [])]))
    assert answer(found).startswith(
        f"connections stay {'on the node' if asks == 'Local' else 'in the zone'} of the client, from 4 of 5 nodes; "
        "of 1 node this is not known: "
    )
    assert (found.uncertain, found.unmet) == (("a1",), ())
    assert [each.nodes for each in found.findings if each.cause.id in {"proxy-not-ready", "node-without-proxy"}] == [
        ("a1",)
    ]


@pytest.mark.parametrize("policy", ["Local", "Cluster"])
def test_load_balancer_that_sends_to_pods_has_no_clients_at_nodes(policy: str) -> None:
    to_pods, of = {"service.beta.kubernetes.io/aws-load-balancer-nlb-target-type": "ip"}, "service.k8s.aws/nlb"
    asked = service(to_pods, type="LoadBalancer", externalTrafficPolicy=policy, loadBalancerClass=of)
    found = diagnosis(objects(asked))
    assert {each.clients for each in found.routes} == {"internal"}
    assert [each.cause.id for each in found.findings] == ["load-balancer-to-pods"]


def test_clients_that_enter_at_nodes_have_no_load_balancer() -> None:
    asked = service(externalIPs=["203.0.113.9"], externalTrafficPolicy="Local")
    found = diagnosis(objects(asked, of_slice(*(endpoint(each) for each in ZONES))))
    assert found.findings[0].says.endswith("external clients get endpoints on the node where they enter")


def test_nothing_is_promised_about_clients_of_a_mesh() -> None:
    waypoint = diagnosis(NOTES["a waypoint of the Service"].seen)
    assert answer(waypoint).startswith(
        "it is not known whether connections stay in the zone: istio.io/use-waypoint lets"
    )
    ambient = answer(diagnosis(NOTES["a namespace in an ambient mesh"].seen))
    assert ambient.startswith("connections that service proxies route stay in the zone of the client, from all 5 nodes")


def test_load_balancer_leaves_out_nodes_without_an_endpoint() -> None:
    found = diagnosis(NOTES["external policy of a load balancer"].seen)
    outside = [each for each in found.routes if each.clients == "external"]
    assert {name: each.tier for each in outside for name in each.nodes} == {
        "a1": "local", "a2": "excluded", "b1": "local", "b2": "excluded", "c1": "local",
    }  # fmt: skip
    assert {each.because for each in outside if each.tier == "excluded"} == {
        f"health checks of the load balancer exclude the node ({LOCAL}: no usable endpoint on the node, 3 elsewhere)"
    }
    assert (found.failing, found.unmet) == ((), ())


ENDING = {"ready": False, "serving": True, "terminating": True}


@pytest.mark.parametrize(
    ("ready", "expected"),
    [
        ("b1", {"a1": "excluded", "b1": "local", "c1": "excluded"}),
        ("", {"a1": "local", "b1": "nowhere", "c1": "nowhere"}),  # then no node passes the health checks
    ],
)
def test_health_checks_do_not_count_terminating_endpoints(ready: str, expected: dict[str, str]) -> None:
    others = [endpoint(ready)] if ready else []
    asked = service(type="LoadBalancer", externalTrafficPolicy="Local", ports=NODE_PORT)
    found = diagnosis(objects(asked, of_slice(endpoint("a1", **ENDING), *others)))
    tiers = {name: each.tier for each in found.routes if each.clients == "external" for name in each.nodes}
    assert {name: tiers[name] for name in expected} == expected
    assert bool(found.failing) is not bool(ready)


@pytest.mark.parametrize(
    ("inside", "outside", "taken"),
    [
        ("Cluster", "Cluster", "from all zones"),
        ("Local", "Local", "from their own node"),
        ("Local", "Cluster", "from their own node; for external clients, from all zones"),
        ("Cluster", "Local", "from all zones; for external clients, from their own node"),
    ],
)
def test_terminating_endpoints_take_connections_as_the_policies_say(inside: str, outside: str, taken: str) -> None:
    policies = {"internalTrafficPolicy": inside, "externalTrafficPolicy": outside}
    found = diagnosis(
        objects(service(type="NodePort", ports=NODE_PORT, **policies), of_slice(endpoint("a1", **ENDING)))
    )
    (told,) = [each for each in found.findings if each.cause.id == "terminating-only"]
    assert told.says.partition(" take connections ")[2] == taken
    assert told.nodes == (("a1",) if inside == "Local" else ("b1", "b2", "c1"))


def test_annotation_that_overrides_node_hints_is_a_warning_beside_an_old_proxy() -> None:
    on_nodes = of_slice(endpoint("a1", nodes=["a1"]), endpoint("a2", nodes=["a2"]), endpoint("b1", nodes=["b1"]))
    old = [proxy(each, "v1.33.1") for each in ZONES]
    asked = service(AUTO, asks="PreferSameNode")
    found = diagnosis(objects(asked, on_nodes, proxies=old))
    told = {each.cause.id: (each.severity, each.nodes) for each in found.findings}
    assert told["annotation-overrides-field"] == ("warning", ("a1", "a2", "b1"))


def test_request_beside_an_annotation_that_is_off_is_a_note() -> None:
    annotations = {"service.kubernetes.io/topology-mode": "Disabled", "service.kubernetes.io/topolgy-mode": "Auto"}
    found = diagnosis(objects(service(annotations, asks=""), of_slice(*EACH_ZONE)))
    assert [(each.cause.id, each.severity) for each in found.findings][-1:] == [("hints-nobody-asked-for", "info")]
    assert ("annotation-misspelt", "info") in [(each.cause.id, each.severity) for each in found.findings]
    assert not found.wanting


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"type": "ExternalName", "externalName": "example.com"}])
@pytest.mark.parametrize(("asks", "severity"), [("PreferClose", "warning"), ("", "info")])
def test_service_that_no_proxy_routes_does_not_get_what_it_asks_for(
    spec: dict[str, str], asks: str, severity: str
) -> None:
    found = diagnosis(objects(service(asks=asks, **spec)))
    (told,) = found.findings
    assert (told.severity, found.wanting, len(found.unmet)) == (severity, bool(asks), 5 if asks else 0)
    assert answer(found) == told.says


@pytest.mark.parametrize(("version", "known"), [("v1.22.4", False), ("v1.25.1", True)])
def test_annotation_of_a_later_release_needs_the_gate_as_well(version: str, known: bool) -> None:
    found = diagnosis(objects(by_annotation(), NO_HINTS, version=version))
    causes = [each.cause.id for each in found.findings if each.severity == "warning"]
    assert causes == (["annotation-misspelt"] if known else ["gate-off", "annotation-misspelt"])
    assert known or found.findings[0].remedy.startswith(
        "use Kubernetes 1.24 or newer, or start kube-controller-manager"
    )


def test_topology_keys_are_a_cause_while_their_gate_is_on() -> None:
    seen = objects(service(asks="", topologyKeys=["topology.kubernetes.io/zone"]), version="v1.20.0")
    cluster = Cluster(seen, "kep")
    cluster.features = Features((1, 20), gates={"ServiceTopology": True})
    assert diagnose(seen.services[0], cluster).findings[0].cause.id == "topology-keys"


def test_preferring_the_node_uses_the_zone_where_the_node_has_none() -> None:
    found = diagnosis(objects(service(asks="PreferSameNode"), NODE_HINTS))
    assert (found.findings, found.crossing) == ((), ())
    assert {name: each.tier for each in found.routes for name in each.nodes} == {
        "a1": "node", "a2": "zone", "b1": "node", "b2": "zone", "c1": "node",
    }  # fmt: skip


def test_each_cause_has_a_scenario() -> None:
    seen = (
        {row.cause for row in ROWS.values()}
        | {note.cause for note in NOTES.values()}
        | {"topology-keys", "proxy-does-otherwise", "nobody-listens", "not-known", "emptied-by-the-supposition"}
    )
    assert seen == causes().keys()


LOCAL = "externalTrafficPolicy Local"


def cilium(setting: str, asked: Object, *slices: Object) -> Diagnosis:
    agents = [agent(each, "cilium", "quay.io/cilium/cilium:v1.20.2", k8s_app="cilium") for each in ZONES]
    config = {"metadata": {"name": "cilium-config"}, "data": {"enable-service-topology": setting}}
    return diagnosis(objects(asked, *slices, proxies=agents, configs=[config]))


def test_cilium_prefers_the_node_by_its_name_and_then_uses_any_endpoint() -> None:
    """See docs/implementation-differences.md, node hints: Cilium reads nodeName, and has no zone tier."""
    found = cilium("true", service(asks="PreferSameNode"), of_slice(*EACH_ZONE))
    assert {name: each.tier for each in found.routes for name in each.nodes} == {
        "a1": "node", "a2": "anywhere", "b1": "node", "b2": "anywhere", "c1": "node",
    }  # fmt: skip
    assert (found.unmet, found.uncertain) == (("a2", "b2"), ())
    assert answer(found).startswith("connections leave their zone from 2 of 5 nodes: on 5 nodes, Cilium 1.20.2 serves")


@pytest.mark.parametrize(
    ("setting", "asks", "tier"),
    [("true", "PreferSameZone", "zone"), ("true", "", "anywhere"), ("false", "PreferSameZone", "anywhere")],
)
def test_cilium_follows_zone_hints_if_it_should_and_the_service_asks(setting: str, asks: str, tier: str) -> None:
    found = cilium(setting, service(asks=asks), of_slice(*EACH_ZONE))
    assert {each.tier for each in found.routes} == {tier}


def test_what_a_manifest_permits_is_not_told_as_seen() -> None:
    by_spec = "(by its spec; its status was not read), and zones a b c have no more endpoints than that"
    rollout = NOTES["a rollout by the manifest of a Deployment"]
    (told,) = [each for each in diagnosis(rollout.seen).findings if each.cause.id == rollout.cause]
    assert told.says == f"a rollout of deployment/web would take up to 1 pod at once {by_spec}"
    evictions = NOTES["evictions by the manifest of a budget"]
    (told,) = [each for each in diagnosis(evictions.seen).findings if each.cause.id == evictions.cause]
    assert told.says == f"PodDisruptionBudget web permits 3 evictions if no pod is missing {by_spec}"


def test_ids_of_causes_stay(request: pytest.FixtureRequest) -> None:
    known = (request.path.parent / "ids.txt").read_text(encoding="utf-8").split()
    assert sorted(causes()) == known, "an id is never renamed or used for another cause; add new ones to ids.txt"


def test_failure_without_a_known_cause_says_so_and_shows_the_slices() -> None:
    seen = objects(service(), of_slice(*EACH_ZONE))
    case = Case(seen.services[0], seen.endpointslices, Cluster(seen, "released"))
    (route, *_) = routes(seen.services[0], seen.endpointslices, case.cluster)
    (unknown,) = _unexplained(case, (), [replace(route, short="fails", because="nothing is known")])
    assert unknown.says == "this command knows no cause of what happens on port 80/TCP IPv4: nothing is known"
    assert (unknown.cause.id, unknown.severity, unknown.nodes) == ("not-known", "error", ("a1", "a2"))
    assert unknown.evidence == ("slice web-1: IPv4, ports '' 8080, 3 endpoints",)
    assert unknown.remedy == "kubectl -n shop get endpointslices -l kubernetes.io/service-name=web -o yaml"


def test_each_cause_has_its_paragraph() -> None:
    assert stale() == [], "run `python -m tests.explain.causes_page` to update the page"
