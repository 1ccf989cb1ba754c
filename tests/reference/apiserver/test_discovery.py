from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.kinds import Resource, Strategy
from reference.apiserver.server import HttpServer
from reference.features import Features
from tests.reference.limited_users import add_user

Http = Callable[..., tuple[int, Any]]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class PodLocatorStrategy(Strategy):
    resource = Resource("topology.example.com", "v1alpha1", "PodLocator", "podlocators", "podlocator")


def test_version_is_that_of_the_features(http: Http) -> None:
    major, minor = Features().version
    assert http("GET", "/version")[1]["gitVersion"] == f"v{major}.{minor}.0"


def test_core_resources_are_listed(http: Http) -> None:
    assert http("GET", "/api")[1]["versions"] == ["v1"]
    resources = {each["name"]: each for each in http("GET", "/api/v1")[1]["resources"]}
    assert resources["services"]["shortNames"] == ["svc"]
    assert resources["nodes"]["namespaced"] is False
    assert resources["services/status"]["verbs"] == ["get", "patch", "update"]


def test_groups_are_listed(http: Http) -> None:
    groups = {each["name"] for each in http("GET", "/apis")[1]["groups"]}
    assert {"discovery.k8s.io", "events.k8s.io", "coordination.k8s.io"} <= groups
    assert http("GET", "/apis/discovery.k8s.io")[1]["preferredVersion"]["groupVersion"] == "discovery.k8s.io/v1"
    assert http("GET", "/apis/discovery.k8s.io/v1")[1]["resources"][0]["kind"] == "EndpointSlice"


def test_aggregated_discovery_request_gets_the_group_list(http: Any) -> None:
    with http.open("GET", "/apis", Accept=AGGREGATED) as response:
        assert response.headers["Content-Type"] == "application/json"
        assert json.loads(response.read())["kind"] == "APIGroupList"


def test_kind_that_is_added_is_served(api: ApiServer, http: Http) -> None:
    api.add_kind(PodLocatorStrategy())
    locator = {"metadata": {"name": "a"}, "spec": {"node": "a1"}}
    assert http("POST", "/apis/topology.example.com/v1alpha1/namespaces/default/podlocators", locator)[0] == 201
    assert "topology.example.com" in [each["name"] for each in http("GET", "/apis")[1]["groups"]]
    assert http("GET", "/openapi/v3/apis/topology.example.com/v1alpha1")[0] == 200
    assert api.get("podlocators", "default", "a")["spec"] == {"node": "a1"}


def test_openapi_v2_describes_a_kind_and_its_merge_keys(http: Http) -> None:
    definitions = http("GET", "/openapi/v2")[1]["definitions"]
    (service,) = (
        each
        for each in definitions.values()
        if {"group": "", "kind": "Service", "version": "v1"} in each.get("x-kubernetes-group-version-kind", [])
    )
    spec = definitions[service["properties"]["spec"]["$ref"].rpartition("/")[2]]
    assert spec["properties"]["trafficDistribution"]["type"] == "string"
    assert spec["properties"]["trafficDistribution"]["description"]
    assert spec["properties"]["ports"]["x-kubernetes-patch-merge-key"] == "port"


@pytest.mark.parametrize(("minor", "described"), [(20, []), (21, ["hints"]), (29, ["hints"]), (30, ["field", "hints"])])
def test_openapi_describes_the_fields_of_the_release(
    server: HttpServer, api: ApiServer, http: Http, minor: int, described: list[str]
) -> None:
    server.replace(ApiServer(Features((1, minor)), predecessor=api))
    definitions = http("GET", "/openapi/v2")[1]["definitions"]
    found = {
        "field": "trafficDistribution" in definitions["io.k8s.V1ServiceSpec"]["properties"],
        "hints": "hints" in definitions["io.k8s.V1Endpoint"]["properties"],
    }
    assert [name for name, is_there in found.items() if is_there] == described


ASKED = {"ServiceTopology": True}


@pytest.mark.parametrize(
    ("features", "described"),
    [(Features((1, 21)), True), (Features((1, 22)), False), (Features(), False), (Features(gates=ASKED), True)],
)
def test_openapi_describes_topology_keys_where_they_exist(
    server: HttpServer, api: ApiServer, http: Http, features: Features, described: bool
) -> None:
    server.replace(ApiServer(features, predecessor=api))
    schemas = http("GET", "/openapi/v3/api/v1")[1]["components"]["schemas"]
    keys = schemas["io.k8s.V1ServiceSpec"]["properties"].get("topologyKeys", {})
    assert (bool(keys.get("items")), bool(keys.get("description"))) == (described, described)


@pytest.mark.parametrize(("minor", "described"), [(32, False), (33, True)])
def test_openapi_describes_node_hints_from_their_release_on(
    server: HttpServer, api: ApiServer, http: Http, minor: int, described: bool
) -> None:
    server.replace(ApiServer(Features((1, minor)), predecessor=api))
    document = http("GET", "/openapi/v3/apis/discovery.k8s.io/v1")[1]
    assert ("forNodes" in document["components"]["schemas"]["io.k8s.V1EndpointHints"]["properties"]) == described


def test_openapi_v3_has_a_document_for_each_group(http: Http) -> None:
    paths = http("GET", "/openapi/v3")[1]["paths"]
    document = http("GET", paths["apis/discovery.k8s.io/v1"]["serverRelativeURL"])[1]
    operation = document["paths"]["/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"]["patch"]
    assert "fieldValidation" in [each["name"] for each in operation["parameters"]]
    assert "#/definitions/" not in str(document)


@pytest.mark.parametrize(
    ("minor", "gates", "line"),
    [
        (37, {}, 'kubernetes_feature_enabled{name="PreferSameTrafficDistribution",stage=""} 1'),
        (33, {}, 'kubernetes_feature_enabled{name="PreferSameTrafficDistribution",stage="ALPHA"} 0'),
        (34, {"PreferSameTrafficDistribution": False},
         'kubernetes_feature_enabled{name="PreferSameTrafficDistribution",stage="BETA"} 0'),
        (30, {}, None),
    ],
)  # fmt: skip
def test_metrics_show_feature_gates(
    server: HttpServer, http: Any, minor: int, gates: dict[str, bool], line: str | None
) -> None:
    server.replace(ApiServer(Features((1, minor), gates)))
    with http.open("GET", "/metrics") as answer:
        lines = answer.read().decode().splitlines()
    found = [each for each in lines if "PreferSameTrafficDistribution" in each]
    assert found == ([line] if line else [])


def test_metrics_require_the_token(server: HttpServer, http: Any) -> None:
    token = add_user(server, "guest")
    code, status = http("GET", "/metrics", Authorization=f"Bearer {token}")
    assert (code, status["message"]) == (403, 'forbidden: User "guest" cannot get path "/metrics"')
