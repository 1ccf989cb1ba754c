"""Tests which requirements each finding of `doctor` makes unavailable, and the exit code."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checks.check import CheckState, Finding, UnjudgedRequirements, costs, exit_code, unknown, unusable
from harness.checks.cluster import check_gates, check_proxy
from harness.model.metrics import enabled_gates
from harness.model.needs import Needs
from harness.model.requirements import MUST, Feature, Profile, Requirement

PROXY, CONTROLLER = Profile.SERVICE_PROXY, Profile.ENDPOINTSLICE_CONTROLLER
ZONES = Feature("ZoneHints", PROXY, True, "")
NODES = Feature("NodeHints", PROXY, True, "")
CLOSE = Feature("PreferClose", CONTROLLER, True, "")


def requirement(name: str, feature: Feature = ZONES) -> Requirement:
    return Requirement(name, "", MUST, (feature,), "")


def lacking(*abilities: str, nodes: tuple[str, ...] = (), features: tuple[str, ...] = ()) -> Finding:
    needs = Needs(frozenset(abilities), frozenset(nodes))
    return Finding(CheckState.LACKS, "", lacks=needs, features=frozenset(features))


def test_missing_feature_costs_the_requirements_that_need_it() -> None:
    needs = {"K/a": Needs(frozenset({"dns"})), "K/b": Needs(nodes=frozenset({"c1"})), "K/d": Needs()}
    requirements = [requirement(name) for name in ("K/a", "K/b", "K/d", "K/e")]
    assert costs([lacking("dns")], needs, requirements, [PROXY]) == [UnjudgedRequirements(PROXY, ("K/a",), 4)]
    assert costs([lacking(nodes=("b2", "c1"))], needs, requirements, [PROXY]) == [
        UnjudgedRequirements(PROXY, ("K/b",), 4)
    ]
    assert costs([lacking("http")], needs, requirements, [PROXY]) == []


def test_several_missing_features_count_each_requirement_once() -> None:
    needs = {"K/a": Needs(frozenset({"dns"}), frozenset({"c1"}))}
    found = costs([lacking("dns"), lacking(nodes=("c1",))], needs, [requirement("K/a")], [PROXY])
    assert found == [UnjudgedRequirements(PROXY, ("K/a",), 1)]


def test_cost_of_a_feature_counts_in_its_profile() -> None:
    requirements = [requirement("K/a", NODES), requirement("K/b", CLOSE), requirement("K/c")]
    found = costs([lacking(features=("NodeHints", "PreferClose"))], {}, requirements, [PROXY, CONTROLLER])
    assert found == [UnjudgedRequirements(CONTROLLER, ("K/b",), 1), UnjudgedRequirements(PROXY, ("K/a",), 2)]


@pytest.mark.parametrize(
    ("lost", "named", "said"),
    [
        (("K/a",), 3, "1 of 9 requirements of service-proxy is not judged: K/a"),
        (("K/a", "K/b", "K/c"), 2, "3 of 9 requirements of service-proxy are not judged: K/a, K/b and 1 more"),
        (("K/a", "K/b"), None, "2 of 9 requirements of service-proxy are not judged: K/a, K/b"),
    ],
)
def test_cost_as_a_sentence(lost: tuple[str, ...], named: int | None, said: str) -> None:
    assert UnjudgedRequirements(PROXY, lost, 9).sentence(named=named) == said


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([Finding(CheckState.OK, ""), unknown("")], 0),
        ([Finding(CheckState.OK, ""), lacking("dns")], 11),
        ([lacking("dns"), unusable("")], 12),
    ],
)
def test_exit_codes(findings: list[Finding], code: int) -> None:
    assert exit_code(findings) == code


METRICS = """# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="PreferSameTrafficDistribution",stage="BETA"} 0
kubernetes_feature_enabled{name="ServiceTrafficDistribution",stage=""} 1
"""


def test_gates_are_read_from_metrics() -> None:
    assert enabled_gates(METRICS) == {"PreferSameTrafficDistribution": False, "ServiceTrafficDistribution": True}
    found = check_gates((1, 34), enabled_gates(METRICS))
    assert isinstance(found, Finding)
    assert (found.state, found.features) == (CheckState.LACKS, {"PreferSameZone", "PreferSameNode", "NodeHints"})


@pytest.mark.parametrize(("version", "off"), [((1, 29), 5), ((1, 30), 5), ((1, 33), 3), ((1, 34), 0), ((1, 40), 0)])
def test_unreadable_gates_have_their_defaults(version: tuple[int, int], off: int) -> None:
    found = check_gates(version, {})
    assert (len(found.features) if isinstance(found, Finding) else 0) == off


def daemon_set(name: str, image: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"template": {"spec": {"containers": [{"image": image}]}}}}


def test_installed_proxy_is_listed_first() -> None:
    sets = [daemon_set("kindnet", "kindnetd:1"), daemon_set("kube-proxy", "kube-proxy:v1.34.1"), daemon_set("x", "y")]
    assert check_proxy(sets) == "kube-proxy (kube-proxy:v1.34.1); kindnet (kindnetd:1)"


def test_undetected_proxy_is_unknown() -> None:
    found = check_proxy([daemon_set("kube-flannel-ds", "flannel:1")])
    assert isinstance(found, Finding)
    assert found.state is CheckState.UNKNOWN
