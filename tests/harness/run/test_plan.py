"""Tests that the claimed profiles and declared features decide which requirements run."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from harness.errors import UsageError
from harness.judging.verdict import SkipReason
from harness.model.requirements import SHOULD, Feature, Profile, Requirement
from harness.run.plan import Plan, check_names, reason_to_skip, what_cannot_show
from harness.settings.options import resolve

CORE = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")
STRICT = Requirement("KEP-1/strict", "It stays.", SHOULD, (CORE,), "KEP-1, Design", unless="Graded")


def test_feature_declared_unsupported_rules_out_a_requirement() -> None:
    settings = resolve({"backend": "netns", "supported-features": ["Graded"]})
    assert reason_to_skip(STRICT, settings) == (SkipReason.UNSUPPORTED, "excluded by Graded, which is declared")


def test_untestable_requirement_is_unavailable_with_the_reason() -> None:
    found = what_cannot_show(STRICT, {"Routing": "feature gates: off"})
    assert found == (SkipReason.UNAVAILABLE, "Routing cannot be observed on this cluster (feature gates: off)")
    assert what_cannot_show(STRICT, {"Other": "feature gates: off"}) == ("", "")


def test_claiming_everything_declares_nothing() -> None:
    assert reason_to_skip(STRICT, resolve({"backend": "netns", "all-features": True})) == ("", "")


def test_requirements_reach_the_xdist_controller() -> None:
    plan = Plan({STRICT.id: replace(STRICT, kills=("forgets-all",))})
    assert Plan.from_json(json.loads(json.dumps(asdict(plan)))) == plan


KEP = Requirement("KEP-1/dropped", "It is dropped.", SHOULD, (CORE,), "KEP-1, Design", "kep")
RELEASED = Requirement("KEP-1/kept", "It is kept.", SHOULD, (CORE,), "Kubernetes 1.33", "released", "KEP-1/dropped")
BESIDE = Requirement("KEP-1/beside", "It is there too.", SHOULD, (CORE,), "Kubernetes 1.33", "released")
BOTH = Requirement("KEP-1/both", "It is there.", SHOULD, (CORE,), "KEP-1, Design")


@pytest.mark.parametrize(("follow", "judged"), [("kep", [KEP, BOTH]), ("released", [RELEASED, BESIDE, BOTH])])
def test_only_the_selected_reading_is_judged(follow: str, judged: list[Requirement]) -> None:
    settings = resolve({"backend": "netns", "follow": follow})
    assert [each for each in (KEP, RELEASED, BESIDE, BOTH) if reason_to_skip(each, settings) == ("", "")] == judged


def test_reading_that_is_not_followed_names_the_other() -> None:
    wanted = SkipReason.UNSUPPORTED, "follows the text of the KEP: see KEP-1/dropped"
    assert reason_to_skip(RELEASED, resolve({"backend": "netns"})) == wanted
    wanted = SkipReason.UNSUPPORTED, "follows the text of the KEP"
    assert reason_to_skip(BESIDE, resolve({"backend": "netns"})) == wanted


@pytest.mark.parametrize("mode", ["nftables", "iptables"])
def test_a_suite_of_ones_own_accepts_the_claims_of_each_proxy(mode: str) -> None:
    settings = resolve({"backend": "netns", "proxy": "kube-proxy:1.37", "mode": mode})
    assert "ExternalIPs" in settings.supported_features
    check_names(settings, [STRICT])


@pytest.mark.parametrize("option", ["supported-features", "exempt-features"])
def test_a_feature_of_no_suite_is_refused_with_the_nearest_name(option: str) -> None:
    check_names(resolve({"backend": "netns", option: ["Routing"]}), [STRICT])
    with pytest.raises(UsageError, match=f"{option}: unknown feature 'ExternalIP'; did you mean ExternalIPs"):
        check_names(resolve({"backend": "netns", option: ["ExternalIP"]}), [STRICT])
