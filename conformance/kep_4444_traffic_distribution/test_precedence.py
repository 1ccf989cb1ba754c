"""KEP-4444: the topology annotation of a Service takes precedence over its field trafficDistribution.

With the five pods of `conformance.skew`, the annotation and the field lead to different hints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from conformance.features import PREFER_CLOSE, PREFER_SAME_NODE, TOPOLOGY_MODE
from conformance.kep_2433_topology_aware_hints.zones import create_pods, own_zones, size_zones
from conformance.skew import SERVERS, SHARED_OUT, WEB
from trafficdist import (
    MUST,
    Cluster,
    Hints,
    expect_hint_counts,
    expect_hints,
    requirement,
)

MODE, AWARE_HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
OWN_ZONE = {f"p{number}": Hints(zones=(node[0],)) for number, node in enumerate(SERVERS, 1)}


def _create_pods(cluster: Cluster) -> None:
    for number, node in enumerate(SERVERS, 1):
        cluster.create_pod(f"p{number}", node, labels=WEB)


def _sorted(pods: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    return {zone: sorted(names) for zone, names in pods.items()}


@requirement(
    "KEP-4444/annotation-comes-before-the-field",
    "With the topology annotation Auto or auto, under its newer name, its older name or both, hints follow the "
    "annotation, whatever trafficDistribution is.",
    level=MUST,
    features={PREFER_CLOSE, TOPOLOGY_MODE},
    source="KEP-4444, Risks and Mitigations, and Test Plan, Integration tests",
    kills={"field-before-annotation", "knows-one-spelling-of-auto", "knows-the-newer-annotation-only"},
)
@pytest.mark.parametrize(
    "annotations",
    [{MODE: "Auto"}, {MODE: "auto"}, {AWARE_HINTS: "Auto"}, {AWARE_HINTS: "auto"}, {MODE: "Auto", AWARE_HINTS: "Auto"}],
    ids=["mode=Auto", "mode=auto", "aware-hints=Auto", "aware-hints=auto", "both=Auto"],
)
def test_annotation_comes_before_the_field(three_zones: Cluster, annotations: Mapping[str, str]) -> None:
    service = three_zones.create_service(selector=WEB, annotations=annotations, traffic_distribution="PreferClose")
    _create_pods(three_zones)

    expect_hint_counts(three_zones, service, SHARED_OUT)


@requirement(
    "KEP-4444/annotation-set-and-removed-on-a-live-service",
    "For an existing Service with trafficDistribution, hints follow the topology annotation when it is set, and follow "
    "trafficDistribution again when the annotation is disabled, changed or removed.",
    level=MUST,
    features={PREFER_CLOSE, TOPOLOGY_MODE},
    source="KEP-4444, Risks and Mitigations (the annotation will take precedence)",
    kills={"annotation-outlives-itself", "field-before-annotation"},
)
@pytest.mark.parametrize("ended_by", ["Disabled", "disabled", "PreferClose", "", None])
def test_annotation_comes_and_goes(three_zones: Cluster, ended_by: str | None) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    _create_pods(three_zones)
    expect_hints(three_zones, service, OWN_ZONE)

    three_zones.patch_service(service, {"metadata": {"annotations": {MODE: "Auto"}}})
    expect_hint_counts(three_zones, service, SHARED_OUT)

    three_zones.patch_service(service, {"metadata": {"annotations": {MODE: ended_by}}})
    expect_hints(three_zones, service, OWN_ZONE)


@requirement(
    "KEP-4444/field-set-and-removed-under-the-annotation",
    "While the topology annotation is Auto, setting, changing or removing trafficDistribution changes no hint.",
    level=MUST,
    features={PREFER_CLOSE, PREFER_SAME_NODE, TOPOLOGY_MODE},
    source="KEP-4444, Upgrade / Downgrade Strategy (the field will be ignored)",
    kills={"field-before-annotation"},
)
def test_field_changes_nothing_under_the_annotation(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, annotations={MODE: "Auto"})
    _create_pods(three_zones)
    before = _sorted(expect_hint_counts(three_zones, service, SHARED_OUT))

    for value in ("PreferClose", "PreferSameNode", None):
        three_zones.patch_service(service, {"spec": {"trafficDistribution": value}})
        three_zones.settle()
        after = _sorted(expect_hint_counts(three_zones, service, SHARED_OUT))
        three_zones.expect_equal(f"pods by zone with trafficDistribution {value}", expected=before, observed=after)


@requirement(
    "KEP-4444/annotation-ends-node-hints",
    "When the topology annotation of a Service with PreferSameNode is set to Auto, its endpoints lose their node "
    "hints, even if each endpoint keeps its zone hint.",
    level=MUST,
    features={PREFER_SAME_NODE, TOPOLOGY_MODE},
    source="KEP-4444, Upgrade / Downgrade Strategy (the annotation will take precedence and the field will be ignored)",
    as_="kep",  # released controllers leave a slice unchanged if its zone hints are valid, even if it has node hints
    kills={"field-before-annotation", "node-hints-outlive-the-annotation"},
)
def test_annotation_ends_node_hints(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    both = {f"p{number}": Hints(zones=(zone,), nodes=(f"{zone}1",)) for number, zone in enumerate("abc", 1)}
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    expect_hints(three_zones, service, both)

    for value, hints in (("Auto", own_zones("abc")), (None, both), ("Auto", own_zones("abc"))):
        three_zones.patch_service(service, {"metadata": {"annotations": {MODE: value}}})
        expect_hints(three_zones, service, hints, exactly=True)


@requirement(
    "KEP-4444/annotation-removed-without-field-ends-hints",
    "When the topology annotation of a Service without trafficDistribution is removed, its hints are removed.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-4444, Default (i.e. trafficDistribution is not configured)",
    kills={"annotation-outlives-itself"},
)
def test_hints_end_with_the_annotation(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, annotations={MODE: "Auto"})
    _create_pods(three_zones)
    expect_hint_counts(three_zones, service, SHARED_OUT)

    three_zones.patch_service(service, {"metadata": {"annotations": {MODE: None}}})
    expect_hints(three_zones, service, dict.fromkeys(OWN_ZONE))
