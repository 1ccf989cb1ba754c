"""Custom resources are served as soon as their definition is stored, and no longer than it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from openapi_spec_validator import validate

from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer
from reference.client import ApiError
from tests.reference.api_server_calls import listed, patched
from tests.reference.apiserver.widget_requests import DEFINITIONS, WIDGETS, definition, widget

KEY = "widgets.example.com"
CRDS = "customresourcedefinitions"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
def widgets(api: ApiServer) -> ApiServer:
    """The API server, which serves widgets."""
    api.create(CRDS, "", definition())
    return api


def conditions(obj: Any) -> dict[str, str]:
    return {each["type"]: each["status"] for each in obj["status"]["conditions"]}


def test_definition_is_established_and_served_at_once(api: ApiServer, http: Any) -> None:
    assert http("GET", WIDGETS)[0] == 404
    code, made = http("POST", DEFINITIONS, definition())
    assert (code, conditions(made)) == (201, {"NamesAccepted": "True", "Established": "True"})
    assert made["status"]["storedVersions"] == ["v1"]
    assert http("POST", WIDGETS, widget())[0] == 201
    assert api.get(KEY, "default", "one")["spec"]["color"] == "red"


def test_kinds_of_two_groups_with_one_plural_are_served_side_by_side(widgets: ApiServer, http: Any) -> None:
    other = definition()
    other["metadata"]["name"] = "widgets.example.org"
    other["spec"]["group"] = "example.org"
    widgets.create(CRDS, "", other)
    http("POST", WIDGETS, widget())
    assert http("GET", "/apis/example.org/v1/widgets")[1]["items"] == []
    assert [each["metadata"]["name"] for each in http("GET", "/apis/example.com/v1/widgets")[1]["items"]] == ["one"]


def test_kind_named_like_a_kind_of_kubernetes_has_rules_of_its_own(api: ApiServer, http: Any) -> None:
    made = json.loads(json.dumps(definition()).replace("widgets", "services").replace("Widget", "Service"))
    del made["spec"]["names"]["shortNames"]
    api.create(CRDS, "", made)
    spec = {"size": 1, "names": ["a"], "unknown": 1}
    path = "/apis/example.com/v1/namespaces/default/services"
    code, service = http("POST", path, {"metadata": {"name": "one"}, "spec": spec})
    assert (code, service["spec"]["names"], "clusterIP" in service["spec"]) == (201, ["a"], False)
    assert http("GET", "/api/v1/services")[1]["items"] == []


def test_definition_of_a_kind_with_rules_of_this_server_changes_nothing(api: ApiServer, http: Any) -> None:
    made = definition()
    made["metadata"]["name"], made["spec"]["group"] = "podlocators.trafficdist.dev", "trafficdist.dev"
    made["spec"]["names"] |= {"plural": "podlocators", "kind": "PodLocator"}
    made["spec"]["versions"][0]["name"] = "v1alpha1"
    api.create(CRDS, "", made)
    api.create("podlocators", "default", {"metadata": {"name": "a"}, "nodeName": "a1"})
    assert http("DELETE", f"{DEFINITIONS}/podlocators.trafficdist.dev")[0] == 200
    assert http("GET", "/apis/trafficdist.dev/v1alpha1/podlocators")[1]["items"][0]["nodeName"] == "a1"


def test_every_served_version_is_served_and_no_other(api: ApiServer, http: Any) -> None:
    made = definition()
    made["spec"]["versions"][0]["served"] = False
    api.create(CRDS, "", made)
    api.create(KEY, "default", widget())
    assert http("GET", WIDGETS)[0] == 404
    code, one = http("GET", WIDGETS.replace("v1", "v1beta1") + "/one")
    assert (code, one["apiVersion"]) == (200, "example.com/v1beta1")


def test_each_version_has_its_own_schema(api: ApiServer, http: Any) -> None:
    made = definition()
    made["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "properties": {"size": {"type": "integer", "maximum": 5}, "extra": {"type": "string", "default": "e"}},
    }
    api.create(CRDS, "", made)
    beta = WIDGETS.replace("v1", "v1beta1")
    assert http("POST", WIDGETS, widget(size=9, color="green"))[0] == 201
    assert http("GET", f"{beta}/one")[1]["spec"] == {"size": 9, "extra": "e"}
    assert http("PATCH", f"{beta}/one", {"spec": {"size": 8}}, Content_Type=MERGE)[0] == 422
    assert http("PATCH", f"{beta}/one", {"spec": {"size": 4}}, Content_Type=MERGE)[1]["spec"] == {
        "size": 4,
        "extra": "e",
    }
    items = http("GET", "/apis/example.com/v1beta1/widgets?labelSelector=a%21%3Db")[1]["items"]
    assert [each["apiVersion"] for each in items] == ["example.com/v1beta1"]


def test_changed_schema_prunes_and_defaults_what_is_stored(widgets: ApiServer, http: Any) -> None:
    widgets.create(KEY, "default", widget(color="green"))
    changed = definition()
    spec = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del spec["color"]
    spec["shape"] = {"type": "string", "default": "round"}
    changed["spec"]["versions"][0]["selectableFields"] = []
    widgets.update(CRDS, "", {**widgets.get(CRDS, "", KEY), "spec": changed["spec"]})
    seen = http("GET", f"{WIDGETS}/one")[1]["spec"]
    assert (seen.get("color"), seen["shape"]) == (None, "round")
    successor = ApiServer(predecessor=widgets)
    assert successor.get(KEY, "default", "one")["spec"]["shape"] == "round"
    assert successor.create(KEY, "default", widget("two"))["spec"]["shape"] == "round"


def test_changed_storage_version_is_recorded(widgets: ApiServer, http: Any) -> None:
    widgets.create(KEY, "default", widget())
    changed = definition()
    for version in changed["spec"]["versions"]:
        version["storage"] = not version["storage"]
    made = widgets.update(CRDS, "", {**widgets.get(CRDS, "", KEY), "spec": changed["spec"]})
    assert made["status"]["storedVersions"] == ["v1", "v1beta1"]
    for version in ("v1", "v1beta1"):
        one = http("GET", WIDGETS.replace("v1", version) + "/one")[1]
        assert one["apiVersion"] == f"example.com/{version}"
    assert http("PATCH", f"{WIDGETS}/one", {"spec": {"size": 2}}, Content_Type=MERGE)[1]["spec"]["size"] == 2


def test_names_and_scope_are_immutable(widgets: ApiServer) -> None:
    stored = json.loads(json.dumps(widgets.get(CRDS, "", KEY)))
    stored["spec"]["scope"] = "Cluster"
    stored["spec"]["names"]["kind"] = "Gadget"
    with pytest.raises(ApiError) as refused:
        widgets.update(CRDS, "", stored)
    fields = [each["field"] for each in refused.value.status["details"]["causes"]]
    assert fields == ["spec.scope", "spec.names.kind"]


def test_webhook_conversion_is_refused_by_name(api: ApiServer) -> None:
    made = definition()
    made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    with pytest.raises(
        ApiError, match=r'spec.conversion.strategy: Unsupported value: "Webhook": supported values: "None"'
    ):
        api.create(CRDS, "", made)


def test_rules_in_cel_are_ignored_with_a_warning(http: Any) -> None:
    made = definition()
    spec = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["size"]["x-kubernetes-validations"] = [{"rule": "self > 100"}]
    with http.open("POST", DEFINITIONS, made) as answer:
        assert (answer.status, "x-kubernetes-validations" in answer.headers["Warning"]) == (201, True)
    assert http("POST", WIDGETS, widget())[0] == 201


def test_group_of_kubernetes_needs_an_approval(api: ApiServer) -> None:
    made = definition()
    made["metadata"]["name"], made["spec"]["group"] = "widgets.x.k8s.io", "x.k8s.io"
    with pytest.raises(ApiError, match="protected groups must have approval annotation"):
        api.create(CRDS, "", made)
    made["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com"}
    api.create(CRDS, "", made)


def test_generation_counts_changes_outside_of_status_and_metadata(widgets: ApiServer) -> None:
    widgets.create(KEY, "default", widget())
    one = patched(widgets, KEY, "default", "one", {"metadata": {"labels": {"a": "b"}}})
    assert one["metadata"]["generation"] == 1
    one = patched(widgets, KEY, "default", "one", {"status": {"phase": "x"}}, subresource="status")
    assert (one["metadata"]["generation"], one["status"]) == (1, {"phase": "x"})
    assert patched(widgets, KEY, "default", "one", {"spec": {"size": 2}})["metadata"]["generation"] == 2


def test_without_subresource_status_is_a_field_like_others(api: ApiServer, http: Any) -> None:
    made = definition()
    del made["spec"]["versions"][0]["subresources"]
    api.create(CRDS, "", made)
    one = api.create(KEY, "default", {**widget(), "status": {"phase": "x"}})
    assert one["status"] == {"phase": "x"}
    assert http("GET", f"{WIDGETS}/one/status")[0] == http("GET", f"{WIDGETS}/one/scale")[0] == 404


def test_deleted_definition_takes_its_objects_along(widgets: ApiServer, http: Any) -> None:
    widgets.create(KEY, "default", widget())
    http("DELETE", f"{DEFINITIONS}/{KEY}")
    assert http("GET", WIDGETS)[0] == 404
    assert http("GET", "/apis/example.com")[0] == 404
    assert listed(widgets, CRDS) == []
    widgets.create(CRDS, "", definition())
    assert http("GET", WIDGETS)[1]["items"] == []


def test_deletion_of_a_definition_waits_for_finalizers(widgets: ApiServer, http: Any) -> None:
    held = widget()
    held["metadata"]["finalizers"] = ["example.com/f"]
    widgets.create(KEY, "default", held)
    http("DELETE", DEFINITIONS)
    assert widgets.get(CRDS, "", KEY)["metadata"]["deletionTimestamp"]
    assert http("POST", WIDGETS, widget("two"))[0] == 405
    http("PATCH", f"{WIDGETS}/one", {"metadata": {"finalizers": None}}, Content_Type=MERGE)
    assert (listed(widgets, CRDS), http("GET", WIDGETS)[0]) == ([], 404)


def test_objects_of_a_kind_with_the_plural_namespaces_are_deleted(api: ApiServer, http: Any) -> None:
    made = json.loads(json.dumps(definition()).replace("widgets", "namespaces"))
    api.create(CRDS, "", made)
    path = WIDGETS.replace("widgets", "namespaces")
    held = widget()
    held["metadata"]["finalizers"] = ["example.com/f"]
    http("POST", path, held)
    http("DELETE", f"{path}/one")
    http("PATCH", f"{path}/one", {"metadata": {"finalizers": None}}, Content_Type=MERGE)
    assert http("GET", f"{path}/one")[0] == 404


def test_scale_below_a_value_that_is_no_object_is_refused(api: ApiServer, http: Any) -> None:
    made = definition()
    made["spec"]["versions"][0]["subresources"]["scale"]["specReplicasPath"] = ".spec.free.a.replicas"
    api.create(CRDS, "", made)
    http("POST", WIDGETS, widget(free={"a": "text"}))
    code, answer = http("PATCH", f"{WIDGETS}/one/scale", {"spec": {"replicas": 2}}, Content_Type=MERGE)
    assert (code, "a is not an object" in answer["message"]) == (422, True)


def test_deleted_namespace_takes_custom_resources_along(widgets: ApiServer) -> None:
    widgets.create("namespaces", "", {"metadata": {"name": "n"}})
    widgets.create(KEY, "n", widget())
    widgets.delete("namespaces", "", "n")
    assert listed(widgets, KEY) == []


def test_watch_of_another_version_sees_objects_of_that_version(widgets: ApiServer, http: Any) -> None:
    widgets.create(KEY, "default", widget())
    path = f"{WIDGETS.replace('v1', 'v1beta1')}?watch=true&fieldSelector=spec.color%3Dred&resourceVersion=0"
    with http.open("GET", path) as stream:
        patched(widgets, KEY, "default", "one", {"spec": {"size": 2}})
        patched(widgets, KEY, "default", "one", {"spec": {"color": "green"}})
        events = [json.loads(line) for line in itertools.islice(stream, 3)]
    assert [each["type"] for each in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert {each["object"]["apiVersion"] for each in events} == {"example.com/v1beta1"}


def test_watch_goes_on_when_its_definition_is_made_again(widgets: ApiServer, http: Any) -> None:
    with http.open("GET", f"{WIDGETS}?watch=true&resourceVersion=0") as stream:
        widgets.delete(CRDS, "", KEY)
        widgets.create(CRDS, "", definition())
        widgets.create(KEY, "default", widget())
        assert json.loads(next(iter(stream)))["object"]["metadata"]["name"] == "one"


def test_applied_lists_merge_by_the_keys_of_the_schema(widgets: ApiServer, http: Any) -> None:
    def applied(manager: str, **spec: Any) -> Any:
        path = f"{WIDGETS}/one?fieldManager={manager}"
        return http("PATCH", path, widget(**spec), Content_Type=APPLY)[1]

    applied("a", items=[{"name": "x"}], names=["p"])
    made = applied("b", items=[{"name": "y", "kind": "k"}], names=["q"])
    assert [each["name"] for each in made["spec"]["items"]] == ["x", "y"]
    assert made["spec"]["names"] == ["p", "q"]
    applied("c", whole={"a": "x"})
    assert applied("c", whole={"b": "y"})["spec"]["whole"] == {"b": "y"}
    managers = {each["manager"]: each["fieldsV1"]["f:spec"] for each in made["metadata"]["managedFields"]}
    assert 'k:{"name":"x","kind":"plain"}' in managers["a"]["f:items"]


def test_openapi_documents_describe_the_schema(widgets: ApiServer, http: Any) -> None:
    document = http("GET", "/openapi/v3/apis/example.com/v1")[1]
    validate(document)
    (described,) = (
        each
        for each in document["components"]["schemas"].values()
        if {"group": "example.com", "kind": "Widget", "version": "v1"}
        in each.get("x-kubernetes-group-version-kind", [])
    )
    assert described["properties"]["spec"]["properties"]["color"]["enum"] == ["red", "green"]
    one = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"
    assert f"{one}/scale" in document["paths"]
    patches = document["paths"][one]["patch"]["requestBody"]["content"]
    assert {each.partition("+")[0].removeprefix("application/") for each in patches} == {
        "apply-patch", "json-patch", "merge-patch",
    }  # fmt: skip
    old = http("GET", "/openapi/v2")[1]["definitions"]["example.com.v1.Widget"]
    assert old["x-kubernetes-preserve-unknown-fields"]


def test_openapi_documents_change_with_the_definition(widgets: ApiServer, http: Any) -> None:
    http("GET", "/openapi/v3/apis/example.com/v1")
    changed = definition()
    spec = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec["more"] = {"type": "string"}
    widgets.update(CRDS, "", {**widgets.get(CRDS, "", KEY), "spec": changed["spec"]})
    document = http("GET", "/openapi/v3/apis/example.com/v1")[1]
    assert "more" in document["components"]["schemas"]["example.com.v1.Widget"]["properties"]["spec"]["properties"]


def test_successor_serves_custom_resources(widgets: ApiServer, server: HttpServer, http: Any) -> None:
    widgets.create(KEY, "default", widget())
    server.replace(ApiServer(predecessor=widgets))
    assert http("GET", f"{WIDGETS}/one")[0] == 200
    http("DELETE", f"{DEFINITIONS}/{KEY}")
    assert http("GET", f"{WIDGETS}/one")[0] == 404


def test_small_object_of_many_defaults_is_refused(api: ApiServer) -> None:
    made = definition()
    for version in made["spec"]["versions"]:
        items = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["items"]
        items["maxItems"] = 10_000
        items["items"]["properties"]["value"]["default"] = "x" * 10_000
    api.create(CRDS, "", made)
    with pytest.raises(ApiError) as refused:
        api.create(KEY, "default", widget(items=[{"name": str(each)} for each in range(1000)]))
    assert refused.value.code == 413


@pytest.mark.parametrize("form", ["a", 1, None, [], {"openAPIV3Schema": 1}])
def test_definition_of_a_wrong_shape_is_refused(api: ApiServer, form: Any) -> None:
    made = definition()
    made["spec"]["versions"][0]["schema"] = form
    with pytest.raises(ApiError) as refused:
        api.create(CRDS, "", made)
    assert refused.value.code in {400, 422}


@pytest.mark.parametrize("form", [{"metadata": {"name": "x"}}, {"metadata": {"name": "x"}, "spec": {}}, {"spec": 1}])
def test_definition_without_the_most_important_is_refused(api: ApiServer, form: Any) -> None:
    with pytest.raises(ApiError) as refused:
        api.create(CRDS, "", form)
    assert refused.value.code in {400, 422}


def test_pages_of_custom_resources(widgets: ApiServer, http: Any) -> None:
    for name in "abc":
        widgets.create(KEY, "default", widget(name))
    first = http("GET", f"{WIDGETS}?limit=2")[1]
    rest = http("GET", f"{WIDGETS}?limit=2&continue={first['metadata']['continue']}")[1]
    assert [each["metadata"]["name"] for each in first["items"] + rest["items"]] == ["a", "b", "c"]
