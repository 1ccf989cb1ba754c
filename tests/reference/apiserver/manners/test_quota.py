"""ResourceQuotas: what is refused with which words, and what they say is used."""

from __future__ import annotations

from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.client import ApiError


def pod(name: str, resources: dict[str, Any] | None = None) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": resources or {}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def limit(api: ApiServer, hard: dict[str, Any], *scopes: str) -> None:
    spec = {"hard": hard, "scopes": list(scopes)}
    api.create("resourcequotas", "default", {"metadata": {"name": "q"}, "spec": spec})


def used(api: ApiServer) -> Any:
    return api.get("resourcequotas", "default", "q")["status"]["used"]


def test_one_too_many_is_refused(api: ApiServer) -> None:
    limit(api, {"pods": 1})
    api.create("pods", "default", pod("a"))
    with pytest.raises(ApiError) as refused:
        api.create("pods", "default", pod("b"))
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    assert str(refused.value) == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )


@pytest.mark.parametrize(
    ("hard", "resource"),
    [("count/pods", "pods"), ("count/leases.coordination.k8s.io", "leases"), ("configmaps", "configmaps")],
)
def test_objects_are_counted_under_their_names(api: ApiServer, hard: str, resource: str) -> None:
    limit(api, {hard: "0"})
    with pytest.raises(ApiError, match=f"requested: {hard}=1, used: {hard}=0, limited: {hard}=0"):
        api.create(resource, "default", pod("a") if resource == "pods" else {"metadata": {"name": "a"}})


def test_use_follows_what_comes_and_goes(api: ApiServer) -> None:
    api.create("pods", "default", pod("a"))
    limit(api, {"pods": 2, "count/pods": 5})
    made = api.create("pods", "default", pod("b"))
    assert used(api) == {"pods": "2", "count/pods": "2"}
    api.update_status("pods", "default", {**made, "status": {"phase": "Succeeded"}})
    assert used(api) == {"pods": "1", "count/pods": "2"}
    api.delete("pods", "default", "a")
    assert used(api) == {"pods": "0", "count/pods": "1"}


def test_other_namespaces_are_not_meant(api: ApiServer) -> None:
    limit(api, {"pods": 0})
    api.create("namespaces", "", {"metadata": {"name": "shop"}})
    assert api.create("pods", "shop", pod("a"))


def test_cpu_and_memory_add_up(api: ApiServer) -> None:
    limit(api, {"requests.cpu": "1", "requests.memory": "128Mi"})
    api.create("pods", "default", pod("a", {"requests": {"cpu": "600m", "memory": "64Mi"}}))
    assert used(api) == {"requests.cpu": "600m", "requests.memory": "64Mi"}
    with pytest.raises(ApiError) as refused:
        api.create("pods", "default", pod("b", {"requests": {"cpu": 0.5, "memory": "1Mi"}}))
    assert "requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1" in str(refused.value)


def test_pod_has_to_say_what_is_limited(api: ApiServer) -> None:
    limit(api, {"limits.cpu": "1"})
    with pytest.raises(ApiError, match=r'pods "a" is forbidden: failed quota: q: must specify limits\.cpu for: c$'):
        api.create("pods", "default", pod("a"))


@pytest.mark.parametrize(("scope", "counted"), [("BestEffort", "1"), ("NotBestEffort", "0")])
def test_scope_of_a_quality_of_service_is_kept_to(api: ApiServer, scope: str, counted: str) -> None:
    limit(api, {"pods": 3}, scope)
    api.create("pods", "default", pod("a"))
    assert used(api) == {"pods": counted}
