"""KEP-2433, Observability: the metrics of the controller show that topology aware hints are in use.

Slice changes have the label `approach` ("random" or "auto") in the KEP, and `topology` (Disabled or Auto) in releases.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.features import CONTROLLER_METRICS, TOPOLOGY_MODE
from conformance.kep_2433_topology_aware_hints.zones import (
    MODE,
    WEB,
    create_auto,
    create_pods,
    own_zones,
    size_zones,
    unhinted,
)
from trafficdist import (
    MUST,
    Cluster,
    controller_metrics,
    expect_hints,
    requirement,
)

CHANGED = "endpoint_slice_controller_endpointslices_changed_per_sync_sum"


@requirement(
    "KEP-2433/changed-slices-are-counted-by-approach",
    'The metric endpointslices_changed_per_sync counts changed slices with the label approach="auto" for Services with '
    'the topology annotation, and with approach="random" for other Services.',
    level=MUST,
    features={TOPOLOGY_MODE, CONTROLLER_METRICS},
    source="KEP-2433, Observability; Monitoring Requirements (a non-zero value for the auto approach)",
    as_="kep",
    kills={"auto-counts-as-disabled", "changed-slices-without-approach", "controller-metrics-never-change"},
)
def test_changed_slices_are_counted_by_approach(three_zones: Cluster) -> None:
    _expect_changes_counted(three_zones, auto={"approach": "auto"}, others={"approach": "random"})


@requirement(
    "KEP-2433/changed-slices-are-counted-by-topology",
    'The metric endpointslices_changed_per_sync counts changed slices with the label topology="Auto" for Services '
    'with the topology annotation, and with topology="Disabled" for other Services.',
    level=MUST,
    features={TOPOLOGY_MODE, CONTROLLER_METRICS},
    source="KEP-2433, Observability; Monitoring Requirements; released with the label topology since 1.21",
    as_="released",
    instead_of="KEP-2433/changed-slices-are-counted-by-approach",
    kills={"auto-counts-as-disabled", "controller-metrics-never-change"},
)
def test_changed_slices_are_counted_by_topology(three_zones: Cluster) -> None:
    _expect_changes_counted(three_zones, auto={"topology": "Auto"}, others={"topology": "Disabled"})


def _expect_changes_counted(three_zones: Cluster, *, auto: Mapping[str, str], others: Mapping[str, str]) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    before = controller_metrics(three_zones)

    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("abc"))
    before.expect_growth(CHANGED, auto)
    before.expect(CHANGED, others, by=0)
    later = controller_metrics(three_zones)

    other = three_zones.create_service(selector=WEB)
    expect_hints(three_zones, other, unhinted("abc"))
    later.expect_growth(CHANGED, others)
    later.expect(CHANGED, auto, by=0)
    last = controller_metrics(three_zones)

    three_zones.patch_service(service, {"metadata": {"annotations": {MODE: None}}})
    expect_hints(three_zones, service, unhinted("abc"))
    last.expect_growth(CHANGED, others)
    last.expect(CHANGED, auto, by=0)
