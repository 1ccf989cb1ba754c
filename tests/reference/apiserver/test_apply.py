from __future__ import annotations

from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.apply import apply
from reference.apiserver.managed_fields import decode, encode
from reference.apiserver.registry import ObjectRef, Write
from reference.apiserver.writes import private
from reference.client import ApiError
from tests.reference.api_server_calls import patched

TARGET = ObjectRef("services", "default", "web")


def service(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}


def applied(api: ApiServer, config: dict[str, Any], manager: str = "me", *, force: bool = False) -> dict[str, Any]:
    return apply(api.registry, TARGET, private(config), Write(manager=manager), force=force)[0].object


def owners(obj: dict[str, Any]) -> dict[str, set[tuple[str, ...]]]:
    return {each["manager"]: decode(each["fieldsV1"]) for each in obj["metadata"]["managedFields"]}


def test_field_sets_survive_their_json_form() -> None:
    paths = {("f:spec", "f:ports", 'k:{"port":80}'), ("f:spec", "f:ports", 'k:{"port":80}', "f:name"), ("f:x",)}
    assert decode(encode(paths)) == paths


def test_apply_creates_and_owns_its_fields(api: ApiServer) -> None:
    created = applied(api, service(ports=[{"port": 80}], sessionAffinity="ClientIP"))
    port = ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}')
    assert owners(created)["me"] == {port, (*port, "f:port"), ("f:spec", "f:sessionAffinity")}


def test_apply_again_writes_nothing(api: ApiServer) -> None:
    first = applied(api, service(ports=[{"port": 80}]))
    assert applied(api, service(ports=[{"port": 80}]))["metadata"] == first["metadata"]


def test_field_that_is_left_out_is_removed(api: ApiServer) -> None:
    applied(api, service(ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "b"}], selector={"app": "web"}))
    ports = applied(api, service(ports=[{"port": 81, "name": "b"}], selector={"app": "web"}))["spec"]["ports"]
    assert [each["port"] for each in ports] == [81]


def test_field_of_another_manager_is_kept(api: ApiServer) -> None:
    applied(api, service(ports=[{"port": 80}]))
    patched(api, "services", "default", "web", {"spec": {"trafficDistribution": "PreferSameZone"}})
    assert applied(api, service(ports=[{"port": 80}]))["spec"]["trafficDistribution"] == "PreferSameZone"


def test_field_changed_by_another_manager_conflicts(api: ApiServer) -> None:
    applied(api, service(ports=[{"port": 80}], sessionAffinity="ClientIP"))
    with pytest.raises(ApiError, match='conflict with "me"') as refused:
        applied(api, service(ports=[{"port": 80}], sessionAffinity="None"), "you")
    cause = refused.value.status["details"]["causes"][0]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".spec.sessionAffinity")
    assert refused.value.code == 409


def test_same_value_is_owned_by_both(api: ApiServer) -> None:
    applied(api, service(ports=[{"port": 80}]))
    assert set(owners(applied(api, service(ports=[{"port": 80}]), "you"))) == {"me", "you"}


def test_force_transfers_ownership_of_the_field(api: ApiServer) -> None:
    applied(api, service(ports=[{"port": 80}], sessionAffinity="ClientIP"))
    forced = applied(api, service(sessionAffinity="None"), "you", force=True)
    assert forced["spec"]["sessionAffinity"] == "None"
    assert ("f:spec", "f:sessionAffinity") not in owners(forced)["me"]


def test_update_takes_ownership_of_what_it_changes(api: ApiServer) -> None:
    applied(api, service(ports=[{"port": 80}], sessionAffinity="ClientIP"))
    patched(api, "services", "default", "web", {"spec": {"sessionAffinity": "None"}})
    found = owners(api.get("services", "default", "web"))
    assert ("f:spec", "f:sessionAffinity") in found["unknown"] - found["me"]


def test_fields_of_an_unapplied_object_belong_to_before_first_apply(api: ApiServer) -> None:
    api.create("services", "default", service(ports=[{"port": 80}], sessionAffinity="ClientIP"))
    with pytest.raises(ApiError, match='conflict with "before-first-apply"'):
        applied(api, service(sessionAffinity="None"))
    assert applied(api, service(sessionAffinity="None"), force=True)["spec"]["sessionAffinity"] == "None"


def test_apply_of_managed_fields_is_refused(api: ApiServer) -> None:
    with pytest.raises(ApiError, match="managedFields must be nil"):
        applied(api, {**service(), "metadata": {"managedFields": [{}]}})
