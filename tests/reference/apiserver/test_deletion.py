from __future__ import annotations

from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.deletion import DeleteOptions, delete, delete_collection
from reference.apiserver.registry import ObjectRef, Write
from reference.apiserver.selectors import select
from reference.client import ApiError
from tests.reference.api_server_calls import listed, patched


def pod(name: str = "p", node: str = "a1", **meta: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, **meta}, "spec": spec}


def config(name: str = "c", **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}}


def gone(api: ApiServer, resource: str, namespace: str, name: str) -> bool:
    return name not in [each["metadata"]["name"] for each in listed(api, resource, namespace)]


def test_object_without_grace_period_is_deleted_immediately(api: ApiServer) -> None:
    api.create("configmaps", "default", config())
    api.delete("configmaps", "default", "c")
    assert gone(api, "configmaps", "default", "c")


def test_missing_object_is_not_found(api: ApiServer) -> None:
    with pytest.raises(ApiError, match='configmaps "c" not found'):
        api.delete("configmaps", "default", "c")


def test_scheduled_pod_is_marked_as_terminating(api: ApiServer) -> None:
    api.create("pods", "default", pod())
    api.delete("pods", "default", "p")
    meta = api.get("pods", "default", "p")["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 30
    assert meta["deletionTimestamp"] > meta["creationTimestamp"]


def test_second_deletion_without_grace_removes_the_pod(api: ApiServer) -> None:
    api.create("pods", "default", pod())
    api.delete("pods", "default", "p", grace_seconds=10)
    api.delete("pods", "default", "p", grace_seconds=0)
    assert gone(api, "pods", "default", "p")


def test_second_deletion_only_shortens_the_grace_period(api: ApiServer) -> None:
    api.create("pods", "default", pod())
    for seconds, expected in ((20, 20), (25, 20), (5, 5)):
        api.delete("pods", "default", "p", grace_seconds=seconds)
        assert api.get("pods", "default", "p")["metadata"]["deletionGracePeriodSeconds"] == expected


def test_unscheduled_pod_is_deleted_immediately(api: ApiServer) -> None:
    api.create("pods", "default", pod(node=""))
    api.delete("pods", "default", "p")
    assert gone(api, "pods", "default", "p")


def test_object_stays_until_its_last_finalizer_is_gone(api: ApiServer) -> None:
    api.create("configmaps", "default", config(finalizers=["a.io/x", "a.io/y"]))
    api.delete("configmaps", "default", "c")
    assert api.get("configmaps", "default", "c")["metadata"]["deletionTimestamp"]
    patched(api, "configmaps", "default", "c", {"metadata": {"finalizers": ["a.io/x"]}})
    assert not gone(api, "configmaps", "default", "c")
    patched(api, "configmaps", "default", "c", {"metadata": {"finalizers": None}})
    assert gone(api, "configmaps", "default", "c")


@pytest.mark.parametrize("options", [DeleteOptions(uid="other"), DeleteOptions(resource_version="1")])
def test_failed_precondition_is_a_conflict(api: ApiServer, options: DeleteOptions) -> None:
    api.create("configmaps", "default", config())
    with pytest.raises(ApiError, match="precondition") as refused:
        delete(api.registry, ObjectRef("configmaps", "default", "c"), options, Write())
    assert refused.value.code == 409
    assert not gone(api, "configmaps", "default", "c")


def test_dry_run_deletion_deletes_nothing(api: ApiServer) -> None:
    api.create("configmaps", "default", config())
    delete(api.registry, ObjectRef("configmaps", "default", "c"), DeleteOptions(), Write(dry_run=True))
    assert not gone(api, "configmaps", "default", "c")


def test_collection_deletion_deletes_selected_objects(api: ApiServer) -> None:
    for name, color in (("a", "red"), ("b", "red"), ("c", "blue")):
        api.create("configmaps", "default", config(name, labels={"color": color}))
    selection = select(api.registry.strategy("configmaps"), "default", "color=red")
    delete_collection(api.registry, "configmaps", selection, DeleteOptions(), Write())
    assert [each["metadata"]["name"] for each in listed(api, "configmaps")] == ["c"]


def test_namespace_deletion_deletes_its_objects(api: ApiServer) -> None:
    api.create("namespaces", "", {"metadata": {"name": "shop"}})
    api.create("configmaps", "shop", config())
    api.create("pods", "shop", pod())
    api.create("configmaps", "default", config())
    api.delete("namespaces", "", "shop")
    assert gone(api, "namespaces", "", "shop")
    assert listed(api, "pods") == []
    assert [each["metadata"]["namespace"] for each in listed(api, "configmaps")] == ["default"]


def test_namespace_waits_for_finalizers_in_it(api: ApiServer) -> None:
    api.create("namespaces", "", {"metadata": {"name": "shop"}})
    api.create("configmaps", "shop", config(finalizers=["a.io/x"]))
    api.delete("namespaces", "", "shop")
    assert api.get("namespaces", "", "shop")["status"]["phase"] == "Terminating"
    with pytest.raises(ApiError, match="because it is being terminated") as refused:
        api.create("configmaps", "shop", config("d"))
    assert refused.value.code == 403
    patched(api, "configmaps", "shop", "c", {"metadata": {"finalizers": None}})
    assert gone(api, "namespaces", "", "shop")


def test_default_namespace_cannot_be_deleted(api: ApiServer) -> None:
    with pytest.raises(ApiError, match="this namespace may not be deleted"):
        api.delete("namespaces", "", "default")
