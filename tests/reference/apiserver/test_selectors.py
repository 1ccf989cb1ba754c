from __future__ import annotations

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.selectors import parse_fields, parse_labels, select
from reference.client import ApiError
from tests.reference.api_server_calls import listed

LABELS = {"app": "web", "tier": "front", "weight": "5"}
SERVICE = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"clusterIP": "None", "type": "ClusterIP"}}


@pytest.mark.parametrize(
    "selector",
    [
        "",
        "app=web",
        "app==web",
        "app!=db",
        "other!=x",
        "app in (db, web)",
        "app notin (db)",
        "other notin (db)",
        "app",
        "!other",
        "weight>4,weight<6",
        "app=web,tier in (front,back),!other",
    ],
)
def test_label_selector_matches(selector: str) -> None:
    assert all(test(LABELS) for test in parse_labels(selector))


@pytest.mark.parametrize(
    "selector",
    ["app=db", "app!=web", "app notin (web)", "other in (a)", "other", "!app", "weight>5", "tier<3", "app=web,!tier"],
)
def test_label_selector_does_not_match(selector: str) -> None:
    assert not all(test(LABELS) for test in parse_labels(selector))


@pytest.mark.parametrize("selector", ["a in b", "=x", "a=b=c", "a in (b", "-a", "a=-b", "weight>x", "a,,b"])
def test_bad_label_selector_is_a_bad_request(api: ApiServer, selector: str) -> None:
    with pytest.raises(ApiError, match="unable to parse requirement") as refused:
        listed(api, "services", labels=selector)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("metadata.name=web", True),
        ("metadata.name!=web", False),
        ("metadata.namespace==shop,metadata.name=web", True),
        ("spec.clusterIP!=None", False),
        ("spec.type=ClusterIP", True),
    ],
)
def test_field_selector_matches(api: ApiServer, selector: str, *, matches: bool) -> None:
    tests = parse_fields(selector, api.registry.strategy("services"))
    assert all(test(SERVICE) for test in tests) is matches


def test_unknown_field_is_a_bad_request(api: ApiServer) -> None:
    with pytest.raises(ApiError, match=r"field label not supported: spec\.color") as refused:
        listed(api, "services", fields="spec.color=red")
    assert refused.value.code == 400


def test_objects_can_be_selected_by_namespace(api: ApiServer) -> None:
    strategy = api.registry.strategy("services")
    assert select(strategy, "shop").matches(SERVICE)
    assert not select(strategy, "other").matches(SERVICE)


def test_secrets_are_selected_by_type(api: ApiServer) -> None:
    api.create("secrets", "default", {"metadata": {"name": "a"}, "stringData": {"x": "y"}})
    api.create("secrets", "default", {"metadata": {"name": "b"}, "type": "kubernetes.io/tls", "data": {"z": "eQ=="}})
    (other,) = listed(api, "secrets", fields="type!=kubernetes.io/tls")
    assert (other["metadata"]["name"], other["type"], other["data"]) == ("a", "Opaque", {"x": "eQ=="})
    assert [each["metadata"]["name"] for each in listed(api, "secrets", fields="type=kubernetes.io/tls")] == ["b"]


@pytest.mark.parametrize("data", [{"x": "?"}, {"x": "ä"}, {"a b": "eQ=="}])
def test_secret_with_wrong_data_is_refused(api: ApiServer, data: dict[str, str]) -> None:
    with pytest.raises(ApiError, match="data"):
        api.create("secrets", "default", {"metadata": {"name": "a"}, "data": data})
