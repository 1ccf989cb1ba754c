"""Tests that the manifest grants exactly the permissions that the suite needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from harness.api.client import Api
from harness.guest.labels import NAMESPACE, run_labels
from harness.guest.lease import cleanup, hold
from harness.guest.permissions import DISRUPTIVE, RULES, Rule, denied
from reference.apiserver.server import HttpServer
from tests.harness.guest.rbac_rules import as_rbac
from tests.reference.limited_users import add_user


def as_user(server: HttpServer, rules: list[dict[str, Any]]) -> Api:
    kubeconfig = server.kubeconfig()
    kubeconfig["users"][0]["user"] = {"token": add_user(server, "bob", rules)}
    return Api(kubeconfig, timeout=5)


MANIFEST = Path(__file__).parents[3] / "deploy" / "rbac.yaml"


def test_manifest_equals_the_list_of_permissions() -> None:
    wanted = {"trafficdist": RULES, "trafficdist-disruptive": DISRUPTIVE}
    roles = list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))
    assert [(each["kind"], each["metadata"]["name"]) for each in roles] == [("ClusterRole", name) for name in wanted]
    assert [each["rules"] for each in roles] == [[as_rbac(rule) for rule in rules] for rules in wanted.values()]


def test_every_rule_has_a_reason() -> None:
    assert [rule for rule in (*RULES, *DISRUPTIVE) if not rule.why] == []


def test_each_verb_and_resource_is_reviewed() -> None:
    rule = Rule(("get", "create"), "", ("pods", "pods/proxy"))
    assert [each["resourceAttributes"] for each in rule.reviews()] == [
        {"resource": "pods", "verb": "get"},
        {"resource": "pods", "subresource": "proxy", "verb": "get"},
        {"resource": "pods", "verb": "create"},
        {"resource": "pods", "subresource": "proxy", "verb": "create"},
    ]


def test_denied_permissions_are_named(server: HttpServer) -> None:
    rule = Rule(("get", "list"), "apps", ("daemonsets",), why="look")
    api = as_user(server, [{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["daemonsets"]}])
    assert [str(each) for each in denied(api, (rule,))] == ["may not list daemonsets.apps (needed to look)"]
    api.close()


def test_the_rules_suffice_to_hold_a_cluster_and_to_clean_it_up(server: HttpServer) -> None:
    api = as_user(server, [as_rbac(rule) for rule in RULES])
    assert denied(api) == []
    with hold(api, "aaaaaaaa"):
        api.create("namespaces", "", {"metadata": {"name": "td-1", "labels": run_labels("aaaaaaaa")}})
    assert cleanup(api) == []
    assert not [each for each in api.list("namespaces") if each["metadata"]["name"] in {"td-1", NAMESPACE}]
    api.close()
