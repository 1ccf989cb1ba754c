"""Endpoints without a node and a zone are in no known zone: no answer says that zones are empty, or asks for more."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from explain.objects import Objects
from harness.api.client import Object
from tests.explain.cluster_builders import AUTO, endpoint, objects, of_slice, service

SERVER = ("default", "kubernetes")


def placeless(place: str, number: int) -> Object:
    made = endpoint(place, number=number, hints="")
    return {key: value for key, value in made.items() if key not in {"nodeName", "zone", "targetRef"}}


def by_hand(of: tuple[str, str], drawn: random.Random) -> Objects:
    """Return a Service without a selector, whose endpoints have no place."""
    asked = service(
        drawn.choice(({}, AUTO)), asks=drawn.choice(("", "PreferSameZone", "PreferSameNode")), selector=None
    )
    members = [placeless(each, number) for number, each in enumerate(drawn.sample(["a1", "b1", "c1"], 2), 1)]
    one = of_slice(*members, manager="", service=of[1])
    for each in (asked, one):
        each["metadata"] |= {"namespace": of[0]}
    asked["metadata"]["name"] = of[1]
    return objects(asked, one)


def wrong(found: Diagnosis, of: tuple[str, str]) -> Iterator[str]:
    for each in found.findings:
        remedy = each.remedy or each.cause.remedy
        if "no endpoint: " in each.says or "add an endpoint in zone" in remedy:
            yield f"their zones are not known: {each.says}, {remedy}"
        parts = remedy.replace("; ", "\n").splitlines()
        if any(part.startswith("nothing") for part in parts[1:]) or (parts[0] == "nothing" and len(parts) > 1):
            yield f"something and nothing at once: {remedy}"
        if of == SERVER and ("patch endpointslice" in remedy or '"trafficDistribution":"' in remedy):
            yield f"the API server undoes it: {remedy}"


@pytest.mark.parametrize("of", [SERVER, ("shop", "web")])
@pytest.mark.parametrize("seed", range(20))
def test_answers_about_endpoints_without_a_place_keep_the_rules(of: tuple[str, str], seed: int) -> None:
    seen = by_hand(of, random.Random(seed))
    found = diagnose(seen.services[0], Cluster(seen, "released"))
    assert len(found.crossing) == 5
    assert [*wrong(found, of)] == []
    unknown = [each for each in found.findings if "zones of the endpoints are not known" in each.says]
    assert [each.cause.id for each in unknown] == ["zone-without-endpoint"]


def test_headless_service_may_stay_as_it_is() -> None:
    asked = service(clusterIP="None", clusterIPs=["None"])
    (known,) = diagnose(asked, Cluster(objects(asked), "released")).findings
    assert known.remedy.startswith("nothing, if clients choose by zone or need each pod's address; otherwise ")
