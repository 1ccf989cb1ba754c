"""A second API server continues with the stored state at another release: KEP-4444's manual test, steps 4 to 7."""

from __future__ import annotations

from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.client import ApiError, Event
from reference.features import Features
from tests.reference.api_server_calls import listed, patched

OLD, NEW = Features((1, 29)), Features((1, 30), {"ServiceTrafficDistribution": True})
BOTH = {"forZones": [{"name": "a"}], "forNodes": [{"name": "a1"}]}


def successor(api: ApiServer, minor: int, **gates: bool) -> ApiServer:
    return ApiServer(Features((1, minor), gates), predecessor=api)


def service(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def slice_of(*hints: dict[str, Any] | None) -> dict[str, Any]:
    endpoints = [
        {"addresses": [f"10.0.0.{index}"], **({"hints": each} if each else {})} for index, each in enumerate(hints, 1)
    ]
    return {"metadata": {"name": "web"}, "addressType": "IPv4", "endpoints": endpoints, "ports": []}


def spec(api: ApiServer, name: str = "web") -> Any:
    return api.get("services", "default", name)["spec"]


def hints(api: ApiServer) -> list[Any]:
    return [each.get("hints") for each in api.get("endpointslices", "default", "web")["endpoints"]]


@pytest.fixture
def new() -> ApiServer:
    """Return a server that supports trafficDistribution and stores a Service with this field."""
    api = ApiServer(NEW)
    api.create("services", "default", service(trafficDistribution="PreferClose"))
    return api


def test_field_that_a_release_does_not_know_is_not_served(new: ApiServer) -> None:
    before = new.get("services", "default", "web")
    old = ApiServer(OLD, predecessor=new)
    served = old.get("services", "default", "web")
    assert "trafficDistribution" not in served["spec"]
    assert served["metadata"] == before["metadata"]
    assert listed(old, "services") == [served]


def test_field_returns_with_the_release_that_has_it(new: ApiServer) -> None:
    before = new.get("services", "default", "web")
    again = ApiServer(NEW, predecessor=ApiServer(OLD, predecessor=new))
    assert again.get("services", "default", "web") == before


def test_write_by_a_release_without_a_field_drops_it(new: ApiServer) -> None:
    old = ApiServer(OLD, predecessor=new)
    patched(old, "services", "default", "web", {"metadata": {"labels": {"a": "b"}}})
    assert "trafficDistribution" not in spec(ApiServer(NEW, predecessor=old))


def test_write_without_other_changes_drops_it_too(new: ApiServer) -> None:
    old = ApiServer(OLD, predecessor=new)
    before = old.get("services", "default", "web")
    after = old.update("services", "default", before)
    assert int(after["metadata"]["resourceVersion"]) == int(before["metadata"]["resourceVersion"]) + 1
    assert old.update("services", "default", after) is after
    assert "trafficDistribution" not in spec(ApiServer(NEW, predecessor=old))


def test_write_of_the_status_drops_it_too(new: ApiServer) -> None:
    old = ApiServer(OLD, predecessor=new)
    old.update_status("services", "default", {**old.get("services", "default", "web"), "status": {}})
    assert "trafficDistribution" not in spec(ApiServer(NEW, predecessor=old))


def test_two_releases_hide_different_fields() -> None:
    api = ApiServer()
    api.create("endpointslices", "default", slice_of(BOTH, None))
    zones_only = {"forZones": BOTH["forZones"]}
    for minor, seen in ((32, zones_only), (20, None), (29, zones_only), (37, BOTH)):
        api = successor(api, minor)
        assert hints(api) == [seen, None]


@pytest.mark.parametrize(
    ("minor", "fields"),
    [
        (17, {"topologyKeys"}),
        (20, {"topologyKeys"}),
        (21, {"topologyKeys", "internalTrafficPolicy"}),
        (22, {"internalTrafficPolicy"}),
        (29, {"internalTrafficPolicy"}),
        (30, {"internalTrafficPolicy", "trafficDistribution"}),
        (37, {"internalTrafficPolicy", "trafficDistribution"}),
    ],
)
def test_each_release_serves_the_fields_of_its_types(minor: int, fields: set[str]) -> None:
    api = ApiServer(Features((1, 21), {"ServiceTopology": True, "ServiceInternalTrafficPolicy": True}))
    api.create("services", "default", service(topologyKeys=["*"], internalTrafficPolicy="Local"))
    stored = api.registry.store.get("services", ("default", "web"))
    assert stored is not None
    stored.object["spec"]["trafficDistribution"] = "PreferClose"  # no release writes all three fields
    known = {"topologyKeys", "internalTrafficPolicy", "trafficDistribution"}
    assert known & spec(successor(api, minor)).keys() == fields


def test_release_serves_a_removed_field_again_after_its_gate_is_set() -> None:
    api = ApiServer(Features((1, 21), {"ServiceTopology": True}))
    api.create("services", "default", service(topologyKeys=["rack"]))
    api = successor(api, 37)
    assert "topologyKeys" not in spec(api)
    for on in (True, False):
        api = successor(api, 37, ServiceTopology=on)
        assert spec(api)["topologyKeys"] == ["rack"]


def test_disabled_gate_hides_nothing(new: ApiServer) -> None:
    api = successor(new, 31, ServiceTrafficDistribution=False)
    assert spec(api)["trafficDistribution"] == "PreferClose"
    changed = patched(api, "services", "default", "web", {"metadata": {"labels": {"a": "b"}}})
    assert changed["spec"]["trafficDistribution"] == "PreferClose"
    other = api.create("services", "default", service("other", trafficDistribution="PreferClose"))
    assert "trafficDistribution" not in other["spec"]


def test_revisions_and_addresses_continue(new: ApiServer) -> None:
    before = new.get("services", "default", "web")
    api = ApiServer(OLD, predecessor=new)
    created = api.create("services", "default", service("other"))
    assert int(created["metadata"]["resourceVersion"]) == int(before["metadata"]["resourceVersion"]) + 1
    assert created["spec"]["clusterIP"] != before["spec"]["clusterIP"]
    with pytest.raises(ApiError) as refused:
        api.create("services", "default", service("third", clusterIP=before["spec"]["clusterIP"]))
    assert refused.value.code == 422


def test_address_of_a_later_deleted_service_is_free(new: ApiServer) -> None:
    address = spec(new)["clusterIP"]
    api = ApiServer(OLD, predecessor=new)
    api.delete("services", "default", "web")
    assert api.create("services", "default", service(clusterIP=address))["spec"]["clusterIP"] == address


def test_former_server_sends_no_more_events(new: ApiServer) -> None:
    events: list[Event] = []
    subscription = new.subscribe(["services"], events.append)
    api = ApiServer(OLD, predecessor=new)
    api.delete("services", "default", "web")
    assert [each.type for each in events] == ["ADDED", "SYNCED"]
    for call in (lambda: new.get("services", "default", "web"), lambda: new.create("services", "default", service())):
        with pytest.raises(ApiError) as refused:
            call()
        assert (refused.value.code, refused.value.reason) == (503, "ServiceUnavailable")
    subscription.close()


def test_subscribers_see_only_fields_of_the_release(new: ApiServer) -> None:
    events: list[Event] = []
    api = ApiServer(OLD, predecessor=new)
    api.subscribe(["services"], events.append)
    api.delete("services", "default", "web")
    assert [each.type for each in events] == ["ADDED", "SYNCED", "DELETED"]
    assert all("trafficDistribution" not in each.object.get("spec", {}) for each in events)


def test_added_kinds_are_preserved(new: ApiServer) -> None:
    strategy = new.registry.strategy("configmaps")
    new.add_kind(strategy)
    assert ApiServer(OLD, predecessor=new).registry.strategy("configmaps") is strategy


def test_unchanged_write_is_skipped_if_nothing_is_hidden() -> None:
    api = ApiServer(NEW)
    api.create("services", "default", service())
    old = ApiServer(OLD, predecessor=api)
    before = old.get("services", "default", "web")
    assert old.update("services", "default", before) is before
