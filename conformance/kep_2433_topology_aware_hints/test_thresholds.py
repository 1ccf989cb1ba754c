"""KEP-2433, Overload: hints are added if the overload is below 20 %, and kept while it is below 30 %. Between 20 and
30 %, changes to slices do not change hints.

There are three endpoints, one in each zone of 8 cores. Nodes are added to zone a one by one, and overload its endpoint
by the percentages below. No percentage is so close to a threshold that floating-point rounding matters
(`tests/conformance/test_threshold_margins.py`), except in the requirement about exactly 20 %.
"""

from __future__ import annotations

from conformance.features import TOPOLOGY_MODE
from conformance.kep_2433_topology_aware_hints.zones import (
    WEB,
    ZONE,
    create_auto,
    create_pods,
    own_zones,
    size_zones,
    touch,
    unhinted,
)
from trafficdist import (
    MUST,
    Cluster,
    Service,
    expect_hints,
    requirement,
)

NODES = {"19.5 %": 2600, "20.6 %": 150, "29.5 %": 1400, "30.4 %": 150}
"""Maps the overload of zone a in per cent to the millicores of the added nodes."""


def _overload(cluster: Cluster, percent: str) -> None:
    cluster.nodes.create(f"a{10 + list(NODES).index(percent)}", "a", cpu_milli=NODES[percent])


def _expect(cluster: Cluster, service: Service, *, hinted: bool) -> None:
    touch(cluster, service)
    expect_hints(cluster, service, own_zones("abc") if hinted else unhinted("abc"))


@requirement(
    "KEP-2433/thresholds-are-20-and-30-percent",
    "A Service gets hints at 19.5 % overload but not at 20.6 %, and a Service with hints keeps them at 29.5 % but not "
    "at 30.4 %.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload (an Overload Threshold of 30 %; expected initial overload is below 20 %)",
    as_="kep",
    kills={
        "adds-hints-up-to-19-percent",
        "adds-hints-up-to-21-percent",
        "keeps-hints-up-to-29-percent",
        "keeps-hints-up-to-31-percent",
        "unready-endpoints-end-the-hysteresis",
    },
)
def test_hints_come_below_20_and_go_above_30_percent(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    _overload(three_zones, "19.5 %")
    first = create_auto(three_zones)
    _expect(three_zones, first, hinted=True)

    _overload(three_zones, "20.6 %")
    second = create_auto(three_zones)
    _expect(three_zones, second, hinted=False)
    _overload(three_zones, "29.5 %")
    _expect(three_zones, first, hinted=True)
    _overload(three_zones, "30.4 %")
    _expect(three_zones, first, hinted=False)


@requirement(
    "KEP-2433/exactly-20-percent-gives-no-hints",
    "A Service gets no hints at exactly 20 % overload.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload (expected initial overload is below 20 %)",
    as_="kep",
    kills={"adds-hints-at-20-percent", "adds-hints-up-to-21-percent"},
)
def test_exactly_20_percent_gives_no_hints(three_zones: Cluster) -> None:
    """Zone a has 22 of 55 cores, so it should get 1.2 of 3 endpoints, and gets one.

    In doubles, 22 / 55 * 3 is above 1.2, so a controller that first divides by the total refuses hints, whether it then
    compares quotients, products or differences. A controller that checks 22 * 3 / 55 / 1 - 1 < 0.2 adds hints, and
    would do so with any numbers, because the double nearest to 1.2 is below 1.2.
    """
    size_zones(three_zones, a=20, b=18, c=15)
    create_pods(three_zones, "abc")
    _expect(three_zones, create_auto(three_zones), hinted=True)  # 13.2 %

    three_zones.nodes.create("a10", "a", cpu_milli=2000)
    _expect(three_zones, create_auto(three_zones), hinted=False)


@requirement(
    "KEP-2433/unready-endpoints-leave-the-threshold",
    "A Service that has both hints and endpoints that are not ready keeps its hints at 29.5 % overload.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload (an Overload Threshold of 30 %); Assumptions (service capacity)",
    as_="kep",
    kills={"unready-endpoints-end-the-hysteresis"},
)
def test_unready_endpoints_leave_the_threshold(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    for zone in "abc":
        three_zones.create_pod(f"unready-{zone}", f"{zone}1", labels=WEB, ready=False)
    service = create_auto(three_zones)
    expected = {**own_zones("abc"), **dict.fromkeys(f"unready-{zone}" for zone in "abc")}
    expect_hints(three_zones, service, expected)

    three_zones.nodes.create("a10", "a", cpu_milli=4150)  # 29.5 %
    touch(three_zones, service)
    expect_hints(three_zones, service, expected)


@requirement(
    "KEP-2433/threshold-is-20-percent",
    "At 19.5 % overload a Service gets hints; at 20.6 % it loses them, and a new Service gets none.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload; released behaviour differs since 1.21 (one threshold of 20 %)",
    as_="released",
    instead_of="KEP-2433/thresholds-are-20-and-30-percent",
    kills={"adds-hints-up-to-19-percent", "adds-hints-up-to-21-percent"},
)
def test_hints_come_and_go_at_20_percent(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    _overload(three_zones, "19.5 %")
    first = create_auto(three_zones)
    _expect(three_zones, first, hinted=True)

    _overload(three_zones, "20.6 %")
    _expect(three_zones, first, hinted=False)
    _expect(three_zones, create_auto(three_zones), hinted=False)


@requirement(
    "KEP-2433/nothing-flips-when-a-slice-changes",
    "Between 20 and 30 % overload, changing a slice's labels or replacing one of its endpoints neither adds nor "
    "removes hints.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload (this difference exists to prevent flapping between approaches)",
    as_="kep",
    kills={"forgets-hints-when-slices-change"},
)
def test_nothing_flips_when_a_slice_changes(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    before = create_auto(three_zones)
    expect_hints(three_zones, before, own_zones("abc"))
    three_zones.nodes.create("a10", "a", cpu_milli=4150)  # 29.5 %
    later = create_auto(three_zones)
    expect_hints(three_zones, later, unhinted("abc"))

    for service, expected in ((before, own_zones("abc")), (later, unhinted("abc"))):
        three_zones.patch_service(service, {"metadata": {"labels": {"example.org/look": "again"}}})
        expect_hints(three_zones, service, expected)
    three_zones.create_pod("p4", "a1", labels=WEB)
    expect_hints(three_zones, before, own_zones("abca"))  # two of four endpoints: zone a has 43 % of the cores
    three_zones.api.delete("pods", three_zones.namespace, "p1", grace_seconds=0)
    expect_hints(three_zones, before, {"p2": ZONE["b"], "p3": ZONE["c"], "p4": ZONE["a"]})
