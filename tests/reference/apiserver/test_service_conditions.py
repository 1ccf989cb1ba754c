"""Conditions in the status of a Service that report the state of trafficDistribution (KEP-4444)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.patches import APPLY, STRATEGIC
from reference.client import ApiError
from reference.features import Features
from tests.reference.api_server_calls import patched

PATH = "/api/v1/namespaces/default/services/web/status"
Http = Callable[..., tuple[int, Any]]


def condition(kind: str = "TrafficDistributionAccepted", **fields: Any) -> dict[str, Any]:
    usual = {"status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    return {"type": kind, **usual, **fields}


def types_and_values(service: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in service["status"]["conditions"]}


def write(api: ApiServer, *conditions: dict[str, Any]) -> dict[str, Any]:
    service = api.get("services", "default", "web")
    return api.update_status("services", "default", {**service, "status": {"conditions": list(conditions)}})


@pytest.fixture
def api() -> ApiServer:
    api = ApiServer()
    api.create("services", "default", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
    return api


def test_conditions_are_stored_through_the_status(api: ApiServer) -> None:
    write(api, condition(observedGeneration=1), condition("example.com/Honored", status="Unknown"))
    stored = api.get("services", "default", "web")
    assert types_and_values(stored) == {"TrafficDistributionAccepted": "True", "example.com/Honored": "Unknown"}
    assert stored["status"]["conditions"][0]["observedGeneration"] == 1


def test_write_of_the_object_does_not_change_conditions(api: ApiServer) -> None:
    before = write(api, condition())
    spec = {**before["spec"], "trafficDistribution": "PreferSameZone"}
    after = api.update("services", "default", {**before, "spec": spec, "status": {}})
    assert after["status"]["conditions"] == before["status"]["conditions"]
    after = patched(api, "services", "default", "web", {"spec": {"type": "NodePort"}, "status": {"conditions": []}})
    assert after["status"]["conditions"] == before["status"]["conditions"]


def test_strategic_patch_merges_conditions_by_type(api: ApiServer) -> None:
    write(api, condition(), condition("Other"))
    patch = {"status": {"conditions": [{"type": "Other", "status": "False"}, condition("Third")]}}
    after = patched(api, "services", "default", "web", patch, content_type=STRATEGIC, subresource="status")
    expected = {"TrafficDistributionAccepted": "True", "Other": "False", "Third": "True"}
    assert types_and_values(after) == expected


def test_conditions_of_two_appliers_coexist(http: Http) -> None:
    for manager, kind in (("one", "TrafficDistributionAccepted"), ("two", "two.example.com/Accepted")):
        config = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
        config["status"] = {"conditions": [condition(kind)]}
        code, after = http("PATCH", f"{PATH}?fieldManager={manager}", config, Content_Type=APPLY)
        assert code == 200, after
    assert types_and_values(after) == {"TrafficDistributionAccepted": "True", "two.example.com/Accepted": "True"}
    code, after = http("PATCH", f"{PATH}?fieldManager=one", {**config, "status": {}}, Content_Type=APPLY)
    assert types_and_values(after) == {"two.example.com/Accepted": "True"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "no type"}, "status.conditions[0].type: Invalid value"),
        ({"kind": ""}, "status.conditions[0].type: Invalid value"),
        (
            {"status": "Perhaps"},
            'status.conditions[0].status: Unsupported value: "Perhaps": supported values: "False", "True", "Unknown"',
        ),
        ({"lastTransitionTime": ""}, "status.conditions[0].lastTransitionTime: Required value: must be set"),
        ({"lastTransitionTime": "yesterday"}, "status.conditions[0].lastTransitionTime: Invalid value"),
        ({"reason": ""}, "status.conditions[0].reason: Required value: must be set"),
        ({"reason": "two words"}, "status.conditions[0].reason: Invalid value"),
        ({"reason": "x" * 1025}, "status.conditions[0].reason: Too long: may not be more than 1024 bytes"),
        ({"message": "x" * 32769}, "status.conditions[0].message: Too long: may not be more than 32768 bytes"),
        (
            {"observedGeneration": -1},
            "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
        ),
    ],
)
def test_malformed_condition_is_refused(api: ApiServer, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ApiError) as refused:
        write(api, condition(**wrong))
    assert refused.value.code == 422
    assert said in str(refused.value)


def test_time_of_unbounded_length_is_refused(api: ApiServer) -> None:
    said = "must be an RFC 3339 time"
    test_malformed_condition_is_refused(api, {"lastTransitionTime": f"2026-01-01T00:00:00.{'0' * 64}Z"}, said)


def test_two_conditions_of_a_type_are_refused(api: ApiServer) -> None:
    with pytest.raises(ApiError, match=r'conditions\[1\].type: Duplicate value: "TrafficDistributionAccepted"'):
        write(api, condition(), condition(status="False"))


def test_release_without_conditions_drops_them(api: ApiServer) -> None:
    write(api, condition())
    old = ApiServer(Features((1, 19)), predecessor=api)
    assert "conditions" not in old.get("services", "default", "web")["status"]
    assert "conditions" not in write(old, condition())["status"]
