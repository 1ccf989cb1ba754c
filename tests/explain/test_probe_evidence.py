"""Select the clients and requests that probe a Service, and report the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from explain.objects import Objects
from explain.probe_evidence import MOST_CLIENTS, PlannedProbe, ProbeOutcomes, ProbePlan, Verdict, named, plan, with_seen
from explain.text import answer
from harness.api.client import Object
from harness.errors import UsageError
from harness.model.outcomes import REFUSED, TIMED_OUT, Observation, Reached, Unknown
from tests.explain.cluster_builders import EACH_ZONE, ZONES, agent, endpoint, node, objects, of_slice, pod, service

PORTS = [{"port": 80, "protocol": "TCP", "name": "web"}, {"port": 53, "protocol": "UDP", "name": "dns"}]


def planned(seen: Objects, ready: Sequence[str] = tuple(ZONES)) -> ProbePlan:
    cluster = Cluster(seen, "released")
    return plan(diagnose(seen.services[0], cluster), cluster, ready)


def agnhost(name: str) -> Object:
    made = pod(name, name.removeprefix("web-"))
    made["spec"]["containers"] = [{"name": "web", "image": "registry.example/agnhost:2.53"}]
    return made


def test_one_client_represents_nodes_with_the_same_expectation() -> None:
    assert planned(objects()).nodes == ["a1", "b1", "c1"]


def test_unschedulable_node_is_represented_by_another_or_named() -> None:
    found = planned(objects(), ready=["a2", "b1", "b2"])
    assert (found.nodes, found.left_out) == (["a2", "b1"], ("c1: accepts no pods",))


def test_each_zone_has_its_client_before_any_has_a_second() -> None:
    many = [node(f"a{number:02}", "a") for number in range(40)] + [node("z1", "z")]
    hinted = [endpoint(each["metadata"]["name"], nodes=[each["metadata"]["name"]], hints="a") for each in many[:-1]]
    found = planned(
        objects(service(asks="PreferSameNode"), of_slice(*hinted), on=many), [each["metadata"]["name"] for each in many]
    )
    assert (len(found.nodes), "z1" in found.nodes) == (MOST_CLIENTS, True)


def test_datagrams_are_not_sent() -> None:
    slices = {**of_slice(*EACH_ZONE), "ports": [{**each, "port": 8080} for each in PORTS]}
    found = planned(objects(service(ports=PORTS), slices))
    assert {each.port for each in found.questions} == {"web/TCP"}
    assert found.left_out == ("port dns/UDP: a probe would need more than a connection",)


def test_servers_are_queried_for_names_only_if_all_run_the_test_image() -> None:
    ours = [agnhost(f"web-{each}") for each in ("a1", "b1", "c1")]
    assert planned(objects(pods=ours)).told
    for others in (ours[:2], [*ours[:2], pod("web-c1", "c1")], []):
        assert not planned(objects(pods=others)).told
    assert not planned(objects(unread={"pods": "403"})).told


REFUSED_SERVICES = {
    "headless": (service(clusterIP="None", clusterIPs=["None"]), "is headless"),
    "external name": (service(type="ExternalName", externalName="example.com"), "is ExternalName"),
    "other proxy": (service(labels={"service.kubernetes.io/service-proxy-name": "mesh"}), "cannot probe Service"),
}


@pytest.mark.parametrize(("asked", "said"), REFUSED_SERVICES.values(), ids=REFUSED_SERVICES)
def test_service_without_a_cluster_ip_is_refused(asked: Object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        planned(objects(asked))


def test_nobody_is_expected_to_answer_where_no_proxy_can_read_a_slice() -> None:
    slices = of_slice({**endpoint("a1"), "addresses": ["010.1.1.1"]})
    assert {each.expected for each in planned(objects(service(), slices)).questions} == {()}


A1, B1, STRANGER, CONNECTED = (Reached(each) for each in ("10.244.0.1", "10.244.0.3", "who?", ""))
VERDICTS: list[tuple[Mapping[Observation, int], Sequence[str], Verdict]] = [
    ({A1: 9}, [A1.pod], "as expected"),
    ({A1: 9}, [A1.pod, B1.pod], "as expected"),
    ({A1: 9, B1: 1}, [A1.pod], "otherwise"),
    ({STRANGER: 1}, [A1.pod], "otherwise"),
    ({A1: 9, TIMED_OUT: 1}, [A1.pod], "otherwise"),
    ({REFUSED: 9}, [], "as expected"),
    ({CONNECTED: 9}, [], "otherwise"),
    ({CONNECTED: 9}, [A1.pod], "connects"),
    ({Unknown("no route"): 9}, [A1.pod], "not known"),
]


@pytest.mark.parametrize(("outcomes", "expected", "verdict"), VERDICTS)
def test_outcomes_are_compared_with_what_is_expected(
    outcomes: Mapping[Observation, int], expected: Sequence[str], verdict: Verdict
) -> None:
    asked = PlannedProbe("a1", "a", "IPv4", "10.96.0.9", 80, "80/TCP", tuple(expected))
    assert ProbeOutcomes(asked, outcomes).verdict == verdict


def test_answer_is_attributed_to_the_named_endpoint_or_to_an_unknown_one() -> None:
    found = planned(objects())
    address = EACH_ZONE[0]["addresses"][0]
    assert named(Reached("web-a1\n"), "IPv4", found) == Reached(address)
    assert named(Reached("web-a1"), "IPv6", found) == Reached("web-a1?")
    assert [named(each, "IPv4", found) for each in (CONNECTED, TIMED_OUT)] == [CONNECTED, TIMED_OUT]


def told(outcome: Observation) -> Diagnosis:
    seen, found = objects(), planned(objects())
    cluster = Cluster(seen, "released")
    answers = [ProbeOutcomes(each, {outcome: 66}) for each in found.questions if each.node == "a1"]
    return with_seen(diagnose(seen.services[0], cluster), found, answers, cluster)


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (
            Reached(EACH_ZONE[1]["addresses"][0]),
            "connections leave their zone from 1 of 5 nodes: a client on a1 should",
        ),
        (
            TIMED_OUT,
            "connections fail on 1 of 5 nodes: a client on a1 should reach web-a1 (zone a), but got: no answer",
        ),
        (Reached(EACH_ZONE[0]["addresses"][0]), "connections stay in the zone of the client, from all 5 nodes"),
    ],
)
def test_unexpected_observation_is_the_first_cause(outcome: Observation, said: str) -> None:
    assert answer(told(outcome)).startswith(said)


@pytest.mark.parametrize(
    ("direct", "cause"),
    [({}, "proxy-does-otherwise"), ({REFUSED: 1}, "nobody-listens"), ({CONNECTED: 1}, "proxy-does-otherwise")],
)
def test_proxy_is_not_blamed_where_the_pod_itself_refuses(direct: Mapping[Observation, int], cause: str) -> None:
    seen, found = objects(), planned(objects())
    cluster = Cluster(seen, "released")
    answers = [ProbeOutcomes(each, {REFUSED: 10}, direct) for each in found.questions]
    assert found.questions[0].targets == ((EACH_ZONE[0]["addresses"][0], 8080),)
    assert with_seen(diagnose(seen.services[0], cluster), found, answers, cluster).findings[0].cause.id == cause


@pytest.mark.parametrize(("told", "known"), [(True, True), (False, False)])
def test_probe_can_tell_whether_another_program_follows_hints(told: bool, known: bool) -> None:
    cilium = [agent(each, "cilium", "cilium:v1.18.0", k8s_app="cilium") for each in ZONES]
    seen = objects(proxies=cilium)
    cluster, found = Cluster(seen, "released"), planned(seen)
    answers = [ProbeOutcomes(each, {Reached(each.expected[0] if told else ""): 66}) for each in found.questions]
    said = answer(with_seen(diagnose(seen.services[0], cluster), found, answers, cluster))
    assert said.startswith("connections stay in the zone" if known else "it is not known")
