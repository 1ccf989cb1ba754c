"""Fixes that remove one of two topology annotations: the cause is gone, and hints that the Service requests are not."""

from __future__ import annotations

import itertools
import re

import pytest

from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from harness.api.client import Object
from reference.endpointslice.hints import CpuHeuristic, SameZoneOrNode, mechanism
from reference.features import Features
from tests.explain.cluster_builders import MODE, OLD_KEY, ZONES, node, objects, proxy, service

_VALUES = ("Auto", "auto", "Disabled", "zone", None)
CASES = [*itertools.product(_VALUES, _VALUES, ("PreferSameZone", ""), ("v1.37.0", "v1.29.4"))]


def diagnosis(asked: Object, version: str) -> Diagnosis:
    on = [node(name, zone, version=version) for name, zone in ZONES.items()]
    seen = objects(asked, on=on, version="v1.37.0", proxies=[proxy(each, version) for each in ZONES])
    return diagnose(asked, Cluster(seen, "released"))


def without(asked: Object, remedy: str) -> Object:
    """Return a Service without the annotations that a fix removes, and with the field that it sets."""
    keys = re.findall(r"(\S+)-(?= |;|$)", remedy)
    kept = {key: value for key, value in asked["metadata"]["annotations"].items() if key not in keys}
    field = re.findall('"trafficDistribution":"([^"]*)"', remedy)
    spec = asked["spec"] | ({"trafficDistribution": field[-1]} if field else {})
    return {**asked, "metadata": {**asked["metadata"], "annotations": kept}, "spec": spec}


@pytest.mark.parametrize(("aware", "mode", "field", "version"), CASES)
def test_removal_ends_the_cause_and_no_hints(aware: str | None, mode: str | None, field: str, version: str) -> None:
    annotations = {key: value for key, value in ((OLD_KEY, aware), (MODE, mode)) if value}
    asked = service(annotations, asks=field)
    before = mechanism(asked, Features(follows="released"))
    for each in diagnosis(asked, version).findings:
        if each.cause.id not in {"annotation-hidden", "annotation-overrides-field"}:
            continue
        then = without(asked, each.remedy)
        after = mechanism(then, Features(follows="released"))
        ids = {one.cause.id for one in diagnosis(then, version).findings}
        assert each.cause.id not in ids
        assert not isinstance(before, CpuHeuristic) or isinstance(after, (CpuHeuristic, SameZoneOrNode))
        if each.cause.id == "annotation-overrides-field":
            assert isinstance(after, SameZoneOrNode)
            assert ("uses no hints without it" in each.also) is (version == "v1.29.4")
