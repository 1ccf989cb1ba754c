"""What a lack costs is counted in requirements, and what was found becomes the exit code."""

from __future__ import annotations

from typing import Any

import pytest

from harness.doctor import gates, installed
from harness.doctor.check import Check, CheckState, exit_code, ok, unknown, unusable
from harness.doctor.cost import Cost, costs
from harness.model.metrics import enabled_gates
from harness.model.needs import Needs
from harness.model.requirements import MUST, Feature, Profile, Requirement

PROXY, CONTROLLER = Profile.SERVICE_PROXY, Profile.ENDPOINTSLICE_CONTROLLER
ZONES = Feature("ZoneHints", PROXY, True, "")
NODES = Feature("NodeHints", PROXY, True, "")
CLOSE = Feature("PreferClose", CONTROLLER, True, "")


def requirement(name: str, feature: Feature = ZONES) -> Requirement:
    return Requirement(name, "", MUST, (feature,), "")


def lacking(*abilities: str, nodes: tuple[str, ...] = (), features: tuple[str, ...] = ()) -> Check:
    return Check("x", CheckState.LACKS, "", "", Needs(frozenset(abilities), frozenset(nodes)), frozenset(features))


def test_lacks_cost_what_needs_them() -> None:
    needs = {"K/a": Needs(frozenset({"dns"})), "K/b": Needs(nodes=frozenset({"c1"})), "K/d": Needs()}
    requirements = [requirement(name) for name in ("K/a", "K/b", "K/d", "K/e")]
    assert costs([lacking("dns")], needs, requirements, [PROXY]) == [Cost(PROXY, ("K/a",), 4)]
    assert costs([lacking(nodes=("b2", "c1"))], needs, requirements, [PROXY]) == [Cost(PROXY, ("K/b",), 4)]
    assert costs([lacking("http")], needs, requirements, [PROXY]) == []


def test_lacks_together_cost_each_requirement_once() -> None:
    needs = {"K/a": Needs(frozenset({"dns"}), frozenset({"c1"}))}
    found = costs([lacking("dns"), lacking(nodes=("c1",))], needs, [requirement("K/a")], [PROXY])
    assert found == [Cost(PROXY, ("K/a",), 1)]


def test_features_cost_in_their_profile() -> None:
    requirements = [requirement("K/a", NODES), requirement("K/b", CLOSE), requirement("K/c")]
    found = costs([lacking(features=("NodeHints", "PreferClose"))], {}, requirements, [PROXY, CONTROLLER])
    assert found == [Cost(CONTROLLER, ("K/b",), 1), Cost(PROXY, ("K/a",), 2)]


@pytest.mark.parametrize(
    ("lost", "named", "said"),
    [
        (("K/a",), 3, "1 of 9 requirements of service-proxy is not judged: K/a"),
        (("K/a", "K/b", "K/c"), 2, "3 of 9 requirements of service-proxy are not judged: K/a, K/b and 1 more"),
        (("K/a", "K/b"), None, "2 of 9 requirements of service-proxy are not judged: K/a, K/b"),
    ],
)
def test_cost_as_a_sentence(lost: tuple[str, ...], named: int | None, said: str) -> None:
    assert Cost(PROXY, lost, 9).sentence(named=named) == said


@pytest.mark.parametrize(
    ("checks", "code"),
    [
        ([ok("a", ""), unknown("b", "")], 0),
        ([ok("a", ""), lacking("dns")], 11),
        ([lacking("dns"), unusable("b", "")], 12),
    ],
)
def test_exit_codes(checks: list[Check], code: int) -> None:
    assert exit_code(checks) == code


METRICS = """# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="PreferSameTrafficDistribution",stage="BETA"} 0
kubernetes_feature_enabled{name="ServiceTrafficDistribution",stage=""} 1
"""


def test_gates_are_read_from_metrics() -> None:
    assert enabled_gates(METRICS) == {"PreferSameTrafficDistribution": False, "ServiceTrafficDistribution": True}
    found = gates.check((1, 34), enabled_gates(METRICS))
    assert (found.state, found.features) == (CheckState.LACKS, {"PreferSameZone", "PreferSameNode", "NodeHints"})


@pytest.mark.parametrize(("version", "off"), [((1, 29), 2), ((1, 30), 2), ((1, 33), 1), ((1, 34), 0), ((1, 40), 0)])
def test_gates_that_cannot_be_read_are_as_by_default(version: tuple[int, int], off: int) -> None:
    assert sum(not gates.is_on(each, version, {}) for each in gates.GATES) == off
    assert (gates.check(version, {}).state is CheckState.LACKS) == bool(off)


def daemon_set(name: str, image: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"template": {"spec": {"containers": [{"image": image}]}}}}


def test_the_installed_proxy_is_named_first() -> None:
    sets = [daemon_set("kindnet", "kindnetd:1"), daemon_set("kube-proxy", "kube-proxy:v1.34.1"), daemon_set("x", "y")]
    assert installed.check(sets).found == "kube-proxy (kube-proxy:v1.34.1); kindnet (kindnetd:1)"


def test_a_proxy_that_nobody_sees_is_unknown() -> None:
    assert installed.check([daemon_set("kube-flannel-ds", "flannel:1")]).state is CheckState.UNKNOWN
