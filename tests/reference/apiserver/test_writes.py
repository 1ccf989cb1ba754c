from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.client import ApiError
from reference.features import Features
from tests.reference.api_server_calls import patched


def service(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def refusal(call: Callable[[], Any]) -> ApiError:
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value


def test_created_object_has_identity(api: ApiServer) -> None:
    meta = api.create("services", "default", service())["metadata"]
    assert meta["namespace"] == "default"
    assert len(meta["uid"]) == 36
    assert meta["creationTimestamp"].endswith("Z")
    assert int(meta["resourceVersion"]) > 0


def test_resource_version_is_one_counter_for_all(api: ApiServer) -> None:
    first = api.create("services", "default", service())
    second = api.create("nodes", "", {"metadata": {"name": "a1"}})
    assert int(second["metadata"]["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1


def test_generated_name_has_the_prefix(api: ApiServer) -> None:
    created = api.create("services", "default", {**service(), "metadata": {"generateName": "web-"}})
    assert len(created["metadata"]["name"]) == len("web-") + 5


def test_server_keeps_no_reference_to_the_callers_object(api: ApiServer) -> None:
    mine = service()
    api.create("services", "default", mine)
    mine["spec"]["ports"][0]["port"] = 81
    assert api.get("services", "default", "web")["spec"]["ports"][0]["port"] == 80


def test_name_can_be_used_once(api: ApiServer) -> None:
    api.create("services", "default", service())
    error = refusal(lambda: api.create("services", "default", service()))
    assert (error.code, error.reason, str(error)) == (409, "AlreadyExists", 'services "web" already exists')


def test_namespace_must_exist(api: ApiServer) -> None:
    error = refusal(lambda: api.create("services", "shop", service()))
    assert (error.code, str(error)) == (404, 'namespaces "shop" not found')


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_new_cluster_has_the_default_namespaces(api: ApiServer, namespace: str) -> None:
    assert api.get("namespaces", "", namespace)["metadata"]["name"] == namespace


def test_invalid_object_is_refused_with_causes(api: ApiServer) -> None:
    error = refusal(lambda: api.create("services", "default", service(trafficDistribution="Near")))
    assert (error.code, error.reason) == (422, "Invalid")
    assert str(error).startswith('Service "web" is invalid: spec.trafficDistribution: Unsupported value: "Near"')
    assert error.status["details"]["causes"][0]["field"] == "spec.trafficDistribution"


def test_object_of_another_kind_is_refused(api: ApiServer) -> None:
    assert refusal(lambda: api.create("services", "default", {**service(), "kind": "Pod"})).code == 400


def test_unknown_resource_is_not_found(api: ApiServer) -> None:
    assert refusal(lambda: api.get("gateways", "default", "a")).code == 404


def test_update_from_an_old_version_conflicts(api: ApiServer) -> None:
    old = api.create("services", "default", service())
    patched(api, "services", "default", "web", {"metadata": {"labels": {"a": "b"}}})
    error = refusal(lambda: api.update("services", "default", old))
    assert (error.code, error.reason) == (409, "Conflict")


def test_update_without_a_version_overwrites(api: ApiServer) -> None:
    api.create("services", "default", service())
    updated = api.update("services", "default", service(sessionAffinity="ClientIP"))
    assert updated["spec"]["sessionAffinity"] == "ClientIP"


def test_update_with_the_uid_of_a_deleted_object_conflicts(api: ApiServer) -> None:
    old = api.create("services", "default", service())
    api.delete("services", "default", "web")
    api.create("services", "default", service())
    stale = {**old, "metadata": {**old["metadata"], "resourceVersion": ""}}
    assert "Precondition failed: UID" in str(refusal(lambda: api.update("services", "default", stale)))


def test_update_without_changes_is_not_a_write(api: ApiServer) -> None:
    created = api.create("services", "default", service())
    assert api.update("services", "default", service())["metadata"] == created["metadata"]


def test_update_does_not_change_the_status(api: ApiServer) -> None:
    ingress = {"loadBalancer": {"ingress": [{"ip": "198.18.1.1", "ipMode": "VIP"}]}}
    created = api.create("services", "default", service(type="LoadBalancer"))
    api.update_status("services", "default", {**created, "status": ingress})
    updated = api.update("services", "default", service(type="LoadBalancer", sessionAffinity="ClientIP"))
    assert updated["status"] == ingress


def test_endpoint_slice_generation_counts_changes_of_endpoints(api: ApiServer) -> None:
    slice_ = {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": []}
    assert api.create("endpointslices", "default", slice_)["metadata"]["generation"] == 1
    slice_["endpoints"] = [{"addresses": ["10.0.0.2"]}]
    assert api.update("endpointslices", "default", slice_)["metadata"]["generation"] == 2


def test_old_server_drops_fields_it_does_not_know() -> None:
    api = ApiServer(Features(version=(1, 29)))
    created = api.create("services", "default", service(trafficDistribution="PreferClose"))
    assert "trafficDistribution" not in created["spec"]


def test_patches_of_two_threads_do_not_conflict(api: ApiServer) -> None:
    api.create("services", "default", service())

    def label(prefix: str) -> None:
        for index in range(50):
            patched(api, "services", "default", "web", {"metadata": {"labels": {f"{prefix}{index}": "x"}}})

    threads = [threading.Thread(target=label, args=(each,)) for each in "ab"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(api.get("services", "default", "web")["metadata"]["labels"]) == 100


def test_patch_that_names_an_old_version_conflicts(api: ApiServer) -> None:
    created = api.create("services", "default", service())
    patched(api, "services", "default", "web", {"metadata": {"labels": {"a": "b"}}})
    patch = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"], "labels": {"a": "c"}}}
    assert refusal(lambda: patched(api, "services", "default", "web", patch)).code == 409
