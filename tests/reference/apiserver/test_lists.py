from __future__ import annotations

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.reads import ListPage, ListQuery, page
from reference.apiserver.selectors import Selection
from reference.client import ApiError
from tests.reference.api_server_calls import listed, patched


def create(api: ApiServer, *names: str) -> None:
    for name in names:
        api.create("configmaps", "default", {"metadata": {"name": name}})


def read(api: ApiServer, **query: object) -> ListPage:
    return page(api.registry, "configmaps", Selection(), ListQuery(**query))  # type: ignore[arg-type]


def names(page: ListPage) -> list[str]:
    return [each.object["metadata"]["name"] for each in page.items]


def test_list_is_in_order_of_namespace_and_name(api: ApiServer) -> None:
    create(api, "b", "a")
    api.create("configmaps", "kube-system", {"metadata": {"name": "a"}})
    assert [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in listed(api, "configmaps")] == [
        ("default", "a"),
        ("default", "b"),
        ("kube-system", "a"),
    ]


def test_pages_follow_each_other(api: ApiServer) -> None:
    create(api, "a", "b", "c", "d", "e")
    first = read(api, limit=2)
    assert (names(first), first.remaining) == (["a", "b"], 3)
    second = read(api, limit=2, continue_token=first.continue_token)
    third = read(api, limit=2, continue_token=second.continue_token)
    assert (names(second), names(third)) == (["c", "d"], ["e"])
    assert third.continue_token == ""


def test_pages_show_the_state_of_the_first_page(api: ApiServer) -> None:
    create(api, "a", "b", "d")
    first = read(api, limit=1)
    create(api, "c")
    api.delete("configmaps", "default", "d")
    patched(api, "configmaps", "default", "b", {"data": {"new": "yes"}})
    rest = read(api, continue_token=first.continue_token)
    assert names(rest) == ["b", "d"]
    assert "data" not in rest.items[0].object
    assert rest.revision == first.revision


def test_token_of_a_forgotten_state_is_expired() -> None:
    api = ApiServer(window=2)
    create(api, "a", "b")
    token = read(api, limit=1).continue_token
    create(api, "c", "d", "e", "f")
    with pytest.raises(ApiError, match="too old to display a consistent list") as refused:
        read(api, continue_token=token)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")


def test_exact_version_shows_the_past(api: ApiServer) -> None:
    create(api, "a")
    revision = read(api).revision
    create(api, "b")
    assert names(read(api, resource_version=str(revision), match="Exact")) == ["a"]
    assert names(read(api, resource_version=str(revision), match="NotOlderThan")) == ["a", "b"]


def test_version_of_the_future_times_out(api: ApiServer) -> None:
    with pytest.raises(ApiError, match="Too large resource version") as refused:
        read(api, resource_version="1000")
    assert refused.value.code == 504


@pytest.mark.parametrize("query", [{"continue_token": "nonsense"}, {"resource_version": "x"}, {"match": "Exact"}])
def test_bad_query_is_a_bad_request(api: ApiServer, query: dict[str, str]) -> None:
    with pytest.raises(ApiError) as refused:
        read(api, **query)
    assert refused.value.code == 400
