"""No answer contradicts its own routes: headline, JSON and overview agree in generated clusters."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from explain.causes import CROSSES, FAILS
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from explain.objects import Objects
from explain.overview import overview
from explain.text import answer, as_json
from tests.explain.fresh_dumps import has_external_routes, in_doubt
from tests.explain.generated_clusters import WAYPOINT, corpus, fresh
from tests.explain.headlines import has_ports_and_nodes
from tests.explain.invariants import broken

SEEDS = (1, 2, 3)


def contradictions(seen: Objects) -> list[str]:
    """Return what an answer says against its own routes."""
    cluster = Cluster(seen, "released")
    found = diagnose(seen.services[0], cluster)
    said, told = answer(found), json.loads(json.dumps(as_json(found)))
    rows = told["routes"]
    failing = {name for each in rows if each["uses"] == "nowhere" for name in each["nodes"]}
    inside = [each for each in rows if each["clients"] == "internal"]
    crossing = {name for each in inside if each["elsewhere"] for name in each["nodes"]}
    unmet = {name for each in rows if each["short"] for name in each["nodes"]}
    view, causes = overview(cluster), {each.cause.id for each in found.findings}
    row = view.rows[0] if view.rows else None
    checks = {
        "all nodes, ports and families have a route": _covers(found, seen),
        "well is said only where no route falls short": not said.startswith("connections stay") or not unmet,
        "nothing is promised for nodes in doubt": set(told["uncertain"]) == in_doubt(seen)
        and (
            not said.startswith("connections stay")
            or f"from {len(seen.nodes) - len(in_doubt(seen))} of" in said
            or not in_doubt(seen)
        ),
        "nothing is promised beside a waypoint": WAYPOINT not in seen.services[0]["metadata"]["labels"]
        or not said.startswith("connections stay")
        or seen.services[0]["spec"]["ports"][0]["protocol"] != "TCP",
        "a load balancer sends either to nodes or to pods": not {"load-balancer-to-pods"} <= causes
        or not causes & {"external-clients", "external-clients-dropped", "external-policy-local"},
        "failing agrees with the table": set(told["failing"]) == failing,
        "crossing agrees with the table": set(told["crossing"]) == crossing,
        "unmet agrees with the table": set(told["unmet"]) == unmet and told["wanting"] == bool(unmet),
        "failing is said first": (" fail on " in said.partition(":")[0]) == bool(failing),
        "the headline has the ports and nodes of the table": has_ports_and_nodes(
            said, rows, len(seen.nodes) - len(in_doubt(seen))
        ),
        "each route that falls short has a cause": all(_has_cause(found, each) for each in rows),
        "no cause weighs more than the routes": not [
            each for each in found.findings if each.cause.weight <= CROSSES and not unmet
        ],
        "the overview has a Service that asks or fails": (row is not None) == bool(found.wish or failing),
        "the overview counts the same nodes": row is None or (row.missed, row.wanting) == (len(unmet), bool(unmet)),
        "the overview says the same": row is None or row.says == said,
    }
    return [*(name for name, holds in checks.items() if not holds), *broken(found, said, seen)]


def _covers(found: Diagnosis, seen: Objects) -> bool:
    spec = seen.services[0]["spec"]
    kinds = 2 if has_external_routes(seen.services[0]) else 1
    places = Counter((name, each.label) for each in found.routes for name in each.nodes)
    expected = kinds * len(seen.nodes) * len(spec["ports"]) * len(spec["clusterIPs"])
    return set(places.values()) == {1} and len(places) == expected


def _has_cause(found: Diagnosis, row: dict[str, object]) -> bool:
    weights = {"fails": {FAILS}, "crosses": {CROSSES}, "misses": {CROSSES}}
    label = f"{row['port']} {row['family']}" + (" external" if row["clients"] == "external" else "")
    return not row["short"] or all(
        any(
            each.cause.weight in weights[str(row["short"])]
            and (not each.nodes or name in each.nodes)
            and (not each.ports or label.startswith(each.ports))
            for each in found.findings
        )
        for name in row["nodes"]  # type: ignore[attr-defined]
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_no_answer_about_a_generated_cluster_contradicts_its_routes(seed: int) -> None:
    wrong = {number: found for number, each in enumerate(corpus(seed)) if (found := contradictions(each))}
    assert wrong == {}


def test_no_answer_about_a_fresh_cluster_contradicts_its_routes() -> None:
    wrong = {number: found for number, each in enumerate(fresh(of_seed=4040)) if (found := contradictions(each))}
    assert wrong == {}


def test_nearly_every_generated_failure_has_a_known_cause() -> None:
    causes = Counter[str]()
    for each in corpus(4):
        found = diagnose(each.services[0], Cluster(each, "released"))
        causes.update({one.cause.id for one in found.findings})
    assert causes["not-known"] * 50 < causes.total(), causes
