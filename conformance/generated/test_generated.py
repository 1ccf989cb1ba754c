"""Generated lifecycles of Services: in every state, clients reach the endpoints that the KEPs' rules allow.

By default a run checks a few fixed scenarios; `trafficdist run --generate 60s` generates new ones from the seed.
Scenarios in which hints determine an outcome require the NodeHints feature, as in `conformance.interactions`.
"""

from __future__ import annotations

import pytest

from conformance.features import EXTERNAL_IPS, IPV6_SERVICES, LOAD_BALANCER, NODE_HINTS, SESSION_AFFINITY
from conformance.generated.runner import check, expect_scenarios
from conformance.interactions.test_grid import CORE, HINTS
from conformance.interactions.test_live_changes import SERVICES
from trafficdist import MUST, Cluster, requirement

pytestmark = pytest.mark.generates(check, among=4)

ALL = CORE | {EXTERNAL_IPS, IPV6_SERVICES, LOAD_BALANCER, SESSION_AFFINITY}


@requirement(
    "GENERATED/core",
    "However a Service and its slices change, clients that connect to cluster IPs and node ports reach all endpoints "
    "that traffic policies and endpoint conditions allow, and no others.",
    level=MUST,
    features=CORE,
    source=SERVICES,
    kills={"freezes-conditions", "freezes-internal-policy"},
)
def test_core(three_zones: Cluster) -> None:
    expect_scenarios(three_zones, "core", hints=False)


@requirement(
    "GENERATED/core-hints",
    "However a Service, its slices and the zones of nodes change, clients that connect to cluster IPs and node ports "
    "follow hints; if LosslessChanges is claimed, no connection fails while only hints change.",
    level=MUST,
    features=CORE | {NODE_HINTS},
    source=HINTS,
    kills={"ignores-node-hints"},
)
def test_core_hints(three_zones: Cluster) -> None:
    expect_scenarios(three_zones, "core", hints=True)


@requirement(
    "GENERATED/all",
    "However a Service and its slices change, clients reach the endpoints that traffic policies and endpoint "
    "conditions allow, and no others, whatever the kind of address and the IP family, with and without session "
    "affinity.",
    level=MUST,
    features=ALL,
    source=SERVICES,
    kills={"freezes-conditions"},
)
def test_all(three_zones: Cluster) -> None:
    expect_scenarios(three_zones, "all", hints=False)


@requirement(
    "GENERATED/all-hints",
    "However a Service, its slices and the zones of nodes change, clients follow hints, whatever the kind of address "
    "and the IP family, with and without session affinity; if LosslessChanges is claimed, no connection fails while "
    "only hints change.",
    level=MUST,
    features=ALL | {NODE_HINTS},
    source=HINTS,
    kills={"freezes-hints", "ignores-node-hints"},
)
def test_all_hints(three_zones: Cluster) -> None:
    expect_scenarios(three_zones, "all", hints=True)
