"""The manifest grants what the suite asks for, no more and no less."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.api import Api
from harness.guest import permissions
from harness.guest.permissions import DISRUPTIVE, RULES, Rule, cluster_role, denied

MANIFEST = Path(__file__).parents[3] / "deploy" / "rbac.yaml"


def test_the_manifest_is_the_list() -> None:
    expected = [cluster_role("trafficdist", RULES), cluster_role("trafficdist-disruptive", DISRUPTIVE)]
    assert list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))) == expected


def test_every_rule_says_what_it_is_for() -> None:
    assert [rule for rule in (*RULES, *DISRUPTIVE) if not rule.why] == []


def test_a_question_is_asked_for_each_verb_and_resource() -> None:
    rule = Rule(("get", "create"), "", ("pods", "pods/proxy"))
    assert [each["resourceAttributes"] for each in rule.questions()] == [
        {"resource": "pods", "verb": "get"},
        {"resource": "pods", "subresource": "proxy", "verb": "get"},
        {"resource": "pods", "verb": "create"},
        {"resource": "pods", "subresource": "proxy", "verb": "create"},
    ]


@pytest.mark.parametrize("allowed", [True, False])
def test_the_api_server_is_asked_and_what_it_denies_is_named(
    api: Api, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    rule = Rule(("get", "list"), "apps", ("daemonsets",), why="look")
    if not allowed:
        monkeypatch.setattr(permissions, "_is_allowed", lambda _, question: "get" in str(question))
    expected = [] if allowed else ["may not list daemonsets.apps (to look)"]
    assert [str(each) for each in denied(api, (rule,))] == expected
