"""Predict the effect of a change on the decision of each node and on the load of each endpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from explain import objects as files
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from explain.load import ZoneLoad, shares
from explain.objects import Objects
from explain.what_if import supposed
from harness.commands.main import main
from harness.errors import UsageError
from tests.explain.cluster_builders import AUTO, by_annotation, endpoint, node, nodes, objects, of_slice, pod, service

WEB = ("shop", "web")
TWO_ZONES = of_slice(endpoint("a1"), endpoint("a2"), endpoint("b1"))
EVEN = nodes(a2=None, b2=None)
EDGE = [node("a1", "a", cpu="20"), node("b1", "b", cpu="16"), node("c1", "c", cpu="14")]

SUPPOSED = [
    (objects(service(), TWO_ZONES), (), "zone-without-endpoint", "c1"),
    (objects(service(), TWO_ZONES), ("scale=4",), "", ""),
    (objects(service(), TWO_ZONES), ("scale=1",), "zone-without-endpoint", "b1 b2 c1"),
    (objects(service(), TWO_ZONES), ("scale=0",), "emptied-by-the-supposition", ""),
    (objects(service(), of_slice(), pods=[pod("web-a1", "a1")]), ("scale=0",), "emptied-by-the-supposition", ""),
    (objects(service(), of_slice(endpoint("a1"))), ("without-zone=a",), "emptied-by-the-supposition", ""),
    (objects(service(), of_slice(), pods=[]), ("without-zone=a",), "selector-matches-nobody", ""),
    (objects(on=EVEN), ("without-zone=a", "without-zone=b", "without-zone=c"), "emptied-by-the-supposition", ""),
    (objects(service(), {**of_slice(), "ports": []}), ("scale=3",), "", ""),
    (objects(), ("without-zone=c",), "", ""),
    (objects(), ("without-zone=c", "scale=1"), "zone-without-endpoint", "b1 b2"),
    (objects(), ("trafficDistribution=",), "asks-for-nothing", "a1 a2 b1 b2 c1"),
    (objects(), ("version=1.29",), "value-unknown-to-the-controller", "a1 a2 b1 b2 c1"),
    (objects(service(asks="PreferClose")), ("version=1.31",), "", ""),
    (objects(), ("internalTrafficPolicy=Local",), "internal-policy-local", ""),
    (objects(on=EVEN), ("annotation=Auto",), "annotation-overrides-field", ""),
    (objects(on=EVEN), ("annotation=Auto", "scale=4"), "annotation-overrides-field", "a1 b1 c1"),
    (objects(on=EVEN), ("trafficDistribution=", "annotation=Auto", "scale=4"), "overload", "a1 b1 c1"),
    (objects(by_annotation(), on=EVEN), ("annotation=", "trafficDistribution=PreferClose"), "", ""),
    (objects(by_annotation(), on=EDGE), ("scale=6",), "floating-point", "a1 b1 c1"),
    (objects(by_annotation(), on=EDGE), ("scale=106",), "hinted-for-another-zone", "a1"),
    (objects(by_annotation(), on=EVEN), ("scale=6",), "", ""),
    (objects(service(selector=None)), ("trafficDistribution=PreferSameNode",), "hints-of-somebody-else", ""),
]


def then(seen: Objects, *assumed: str) -> tuple[Diagnosis, Cluster]:
    cluster = supposed(assumed, WEB, Cluster(seen, "released"))
    return diagnose(cluster.services[WEB], cluster), cluster


def first_cause(found: Diagnosis) -> str:
    return found.findings[0].cause.id if found.findings else ""


def bears(seen: Objects, clients: str, *assumed: str) -> list[ZoneLoad]:
    found, cluster = then(seen, *assumed)
    return shares(found, cluster.slices[WEB], cluster, clients)


@pytest.mark.parametrize(
    ("seen", "assumed", "cause", "crossing"),
    SUPPOSED,
    ids=[f"{number} {' '.join(each[1]) or 'nothing'}" for number, each in enumerate(SUPPOSED)],
)
def test_causes_are_those_of_the_hypothetical_cluster(
    seen: Objects, assumed: Sequence[str], cause: str, crossing: str
) -> None:
    found, _ = then(seen, *assumed)
    assert (first_cause(found), " ".join(found.crossing)) == (cause, crossing)


def test_scaled_pods_have_the_ports_of_all_slices() -> None:
    http, grpc = ({"name": name, "port": port, "protocol": "TCP"} for name, port in (("http", 8080), ("grpc", 9090)))
    slices = [
        {**of_slice(endpoint(place), name=place), "ports": [port]} for place, port in (("a1", http), ("b1", grpc))
    ]
    asked = service(ports=[{**http, "port": 80}, {**grpc, "port": 81}])
    found, _ = then(objects(asked, *slices), "scale=3")
    assert {(each.label, len(each.targets)) for each in found.routes} == {("http/TCP IPv4", 1), ("grpc/TCP IPv4", 1)}


def test_inputs_are_not_modified() -> None:
    seen = objects(service(AUTO))
    before = json.dumps(seen.services), json.dumps(seen.endpointslices), json.dumps(seen.nodes)
    then(seen, "annotation=", "scale=9", "without-zone=a", "version=1.31")
    assert (json.dumps(seen.services), json.dumps(seen.endpointslices), json.dumps(seen.nodes)) == before


def test_added_pods_go_to_the_ready_node_with_the_fewest() -> None:
    seen = objects(service(), TWO_ZONES, on=nodes(c0=node("c0", "c", ready=False)))
    _, cluster = then(seen, "scale=6")
    places = sorted(each["nodeName"] for one in cluster.slices[WEB] for each in one["endpoints"])
    assert places == ["a1", "a2", "b1", "b2", "c1", "c1"]


@pytest.mark.parametrize(
    ("clients", "assumed", "expected"),
    [
        ("nodes", ("scale=6", "version=1.36"), [("a", 2, 0.2, 1.2), ("b", 2, 0.2, 1.2), ("c", 2, 0.1, 0.6)]),
        ("a=1,b=1,c=1", (), [("a", 1, 0.333333, 1.0), ("b", 1, 0.333333, 1.0), ("c", 1, 0.333333, 1.0)]),
        ("c=1", (), [("a", 1, 0.0, 0.0), ("b", 1, 0.0, 0.0), ("c", 1, 1.0, 3.0)]),
        ("nodes", ("trafficDistribution=", "scale=2"), [("a", 1, 0.5, 1.0), ("b", 1, 0.5, 1.0)]),
    ],
)
def test_endpoint_load_follows_from_client_locations(
    clients: str, assumed: Sequence[str], expected: list[tuple[str, int, float, float]]
) -> None:
    found = bears(objects(), clients, *assumed)
    assert [(each.zone, each.endpoints, each.share, pytest.approx(each.load, abs=1e-4)) for each in found] == expected


def test_clients_can_be_weighted_by_cpu() -> None:
    seen = objects(on=nodes(a2=None, b2=None, c1=node("c1", "c", cpu="8")))
    assert [(each.zone, each.share) for each in bears(seen, "cpu")] == [("a", 0.25), ("b", 0.25), ("c", 0.5)]


@pytest.mark.parametrize("clients", ["", "z=1", "a", "a=x", "a=-1", "a=1e9"])
def test_clients_without_a_node_are_refused(clients: str) -> None:
    with pytest.raises(UsageError, match="--clients"):
        bears(objects(), clients)


@pytest.mark.parametrize(
    "assumed",
    [
        "scale",
        "scale=",
        "scale=-1",
        "scale=99999",
        "version=2",
        "version=1.x",
        "without-zone=z",
        "other=1",
        "=",
        "trafficDistribution=PreferSameNod",
    ],
)
def test_invalid_supposition_is_named_and_refused(assumed: str) -> None:
    with pytest.raises(UsageError, match="--if"):
        then(objects(), assumed)


def test_command_shows_both_explanations(tmp_path: Path) -> None:
    files.write(objects(service(), TWO_ZONES), tmp_path)

    def run(*arguments: str) -> str:
        return (
            CliRunner()
            .invoke(main, ["explain", "shop/web", "--from", str(tmp_path), "--if", "scale=6", *arguments])
            .output
        )

    assert "If scale=6: connections stay in the zone of the client, from all 5 nodes" in run()
    told = json.loads(run("--format", "json"))
    assert (told["now"]["crossing"], told["then"]["crossing"]) == (["c1"], [])
    assert [each["load"] for each in told["shares"]] == pytest.approx([1.2, 1.2, 0.6])


@pytest.mark.parametrize(("release", "gate"), [("1.29", False), ("1.30", True)])
def test_release_is_not_told_to_set_a_gate_that_it_does_not_have(release: str, gate: bool) -> None:
    found, _ = then(objects(service(asks="PreferClose")), f"version={release}")
    assert ("--feature-gates=ServiceTrafficDistribution" in found.findings[0].remedy) is gate, found.findings[0]
