from __future__ import annotations

import socket
import ssl
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer
from reference.features import Features
from tests.reference.api_server_calls import listed

SERVICES = "/api/v1/namespaces/default/services"
CONTAINER = {"name": "c", "image": "i"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
Http = Callable[..., tuple[int, Any]]


def service(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], **spec},
    }


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", "Basic YTpi"])
def test_request_without_token_is_unauthorized(http: Http, authorization: str) -> None:
    code, status = http("GET", SERVICES, Authorization=authorization)
    assert (code, status["kind"], status["reason"]) == (401, "Status", "Unauthorized")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_needs_no_token(http: Any, path: str) -> None:
    with http.open("GET", path, Authorization="") as response:
        assert (response.status, response.read()) == (200, b"ok")


def test_object_can_be_used_with_every_verb(http: Http) -> None:
    assert http("POST", SERVICES, service())[0] == 201
    code, read = http("GET", f"{SERVICES}/web")
    assert (code, read["spec"]["ports"][0]["port"]) == (200, 80)
    read["spec"]["ports"][0]["port"] = 81
    assert http("PUT", f"{SERVICES}/web", read)[0] == 200
    assert http("GET", SERVICES)[1]["items"][0]["spec"]["ports"][0]["port"] == 81
    assert http("DELETE", f"{SERVICES}/web")[0] == 200
    assert http("GET", f"{SERVICES}/web")[0] == 404


PODS = "/api/v1/namespaces/default/pods"


def eviction(name: str, **options: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}


def test_evicted_pod_is_deleted_gracefully(http: Http, api: ApiServer) -> None:
    api.create("pods", "default", {"metadata": {"name": "p"}, "spec": {"nodeName": "a1", "containers": [CONTAINER]}})
    dry = http("POST", f"{PODS}/p/eviction", eviction("p", dryRun=["All"]))
    assert (dry[0], "deletionTimestamp" in api.get("pods", "default", "p")["metadata"]) == (201, False)
    code, answer = http("POST", f"{PODS}/p/eviction", eviction("p", gracePeriodSeconds=7))
    assert (code, answer["kind"], answer["status"]) == (201, "Status", "Success")
    assert api.get("pods", "default", "p")["metadata"]["deletionGracePeriodSeconds"] == 7


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (f"{PODS}/none/eviction", eviction("none"), 404),
        (f"{SERVICES}/web/eviction", eviction("web"), 404),
        (f"{PODS}/p/eviction", eviction("q"), 400),
        (f"{PODS}/p/eviction", {"kind": "Pod"}, 400),
        (f"{PODS}/p/eviction", eviction("p", gracePeriodSeconds="long"), 400),
    ],
)
def test_eviction_of_something_else_is_refused(http: Http, path: str, body: Any, code: int) -> None:
    assert http("POST", path, body)[0] == code


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", f"{SERVICES}/none", 404, "NotFound"),
        ("GET", "/api/v1/gateways", 404, "NotFound"),
        ("GET", "/api/v2/services", 404, "NotFound"),
        ("GET", "/api/v1/services/web", 404, "NotFound"),
        ("GET", "/nothing", 404, "NotFound"),
        ("POST", f"{SERVICES}/web", 405, "MethodNotAllowed"),
        ("PUT", SERVICES, 405, "MethodNotAllowed"),
        ("GET", f"{SERVICES}?labelSelector=a+in+b", 400, "BadRequest"),
        ("GET", f"{SERVICES}?watch=1&timeoutSeconds=soon", 400, "BadRequest"),
        ("GET", f"{SERVICES}?fieldSelector=spec.color%3Dred", 400, "BadRequest"),
        ("GET", f"{SERVICES}?limit=many", 400, "BadRequest"),
        ("GET", f"{SERVICES}?resourceVersion=99999", 504, "Timeout"),
        ("DELETE", f"{SERVICES}/none?dryRun=Some", 400, "BadRequest"),
    ],
)
def test_refusals_are_status_objects(http: Http, method: str, path: str, code: int, reason: str) -> None:
    found, status = http(method, path)
    assert (found, status["kind"], status["reason"], status["code"]) == (code, "Status", reason, code)


def test_invalid_object_names_its_causes(http: Http) -> None:
    code, status = http("POST", SERVICES, service(trafficDistribution="Near"))
    assert (code, status["details"]["kind"]) == (422, "Service")
    assert [each["field"] for each in status["details"]["causes"]] == ["spec.trafficDistribution"]


def test_body_that_is_not_json_is_a_bad_request(http: Http) -> None:
    assert http("POST", SERVICES, b"{")[0] == 400


@pytest.mark.parametrize("content_type", ["application/vnd.kubernetes.protobuf", "text/plain"])
def test_other_media_types_are_unsupported(http: Http, content_type: str) -> None:
    code, status = http("POST", SERVICES, b"k8s\x00", Content_Type=content_type)
    assert (code, status["reason"]) == (415, "UnsupportedMediaType")
    assert "application/json" in status["message"]


def test_client_that_prefers_protobuf_gets_json(http: Any) -> None:
    with http.open("GET", SERVICES, Accept="application/vnd.kubernetes.protobuf, */*") as response:
        assert response.headers["Content-Type"] == "application/json"


def test_client_that_accepts_only_protobuf_is_refused(http: Http) -> None:
    assert http("GET", SERVICES, Accept="application/vnd.kubernetes.protobuf")[0] == 406


def test_yaml_is_read(http: Http) -> None:
    body = yaml.safe_dump(service()).encode()
    assert http("POST", SERVICES, body, Content_Type="application/yaml")[1]["metadata"]["name"] == "web"


def test_unknown_field_warns(http: Any) -> None:
    with http.open("POST", SERVICES, service(color="red")) as response:
        assert response.headers["Warning"] == '299 - "unknown field \\"spec.color\\""'


def test_many_warnings_are_shortened(http: Any) -> None:
    body = {"metadata": {"name": "one"}, **{f"x{index}{'y' * 300}": 1 for index in range(1000)}}
    with http.open("POST", "/api/v1/namespaces/default/configmaps", body) as answer:
        assert answer.status == 201
        warnings = answer.headers.get_all("Warning")
    assert len(warnings) == 16
    assert max(map(len, warnings)) < 300


def test_unknown_field_is_refused_when_strict(http: Http) -> None:
    code, status = http("POST", f"{SERVICES}?fieldValidation=Strict", service(color="red"))
    assert (code, status["reason"]) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.color"' in status["message"]


@pytest.mark.parametrize(("method", "path"), [("POST", SERVICES), ("DELETE", f"{SERVICES}/kept")])
def test_dry_run_stores_nothing(http: Http, api: ApiServer, method: str, path: str) -> None:
    api.create("services", "default", service("kept"))
    assert http(method, f"{path}?dryRun=All", service() if method == "POST" else None)[0] in {200, 201}
    assert [each["metadata"]["name"] for each in listed(api, "services")] == ["kept"]


def test_status_is_a_subresource(http: Http) -> None:
    http("POST", "/api/v1/nodes", {"metadata": {"name": "a1"}})
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"unschedulable": True}}
    headers = {"Content_Type": "application/merge-patch+json"}
    code, node = http("PATCH", "/api/v1/nodes/a1/status", patch, **headers)
    assert (code, node["status"]["conditions"][0]["type"]) == (200, "Ready")
    assert not node["spec"].get("unschedulable")


def test_patch_of_an_unknown_type_is_unsupported(http: Http) -> None:
    http("POST", SERVICES, service())
    code, status = http("PATCH", f"{SERVICES}/web", {}, Content_Type="application/json")
    assert code == 415
    assert "application/strategic-merge-patch+json" in status["message"]


def test_apply_patch_creates(http: Http) -> None:
    headers = {"Content_Type": "application/apply-patch+yaml"}
    body = yaml.safe_dump(service()).encode()
    code, created = http("PATCH", f"{SERVICES}/web?fieldManager=me", body, **headers)
    assert (code, created["metadata"]["managedFields"][0]["manager"]) == (201, "me")


def test_lists_can_be_paged_over_http(http: Http) -> None:
    for name in "abc":
        http("POST", SERVICES, service(name))
    _, first = http("GET", f"{SERVICES}?limit=2")
    assert (len(first["items"]), first["metadata"]["remainingItemCount"]) == (2, 1)
    _, rest = http("GET", f"{SERVICES}?limit=2&continue={first['metadata']['continue']}")
    assert [each["metadata"]["name"] for each in rest["items"]] == ["c"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_table_has_the_columns_of_the_kind(http: Http) -> None:
    http("POST", SERVICES, service())
    _, table = http("GET", SERVICES, Accept=TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["columnDefinitions"][0]["name"] == "Name"
    assert table["rows"][0]["cells"][:2] == ["web", "ClusterIP"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_metadata_can_be_requested_alone(http: Http) -> None:
    http("POST", SERVICES, service())
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    _, found = http("GET", SERVICES, Accept=accept)
    assert (found["kind"], set(found["items"][0])) == ("PartialObjectMetadataList", {"kind", "apiVersion", "metadata"})


def test_collection_deletion_answers_with_what_was_deleted(http: Http) -> None:
    http("POST", SERVICES, {**service(), "metadata": {"name": "a", "labels": {"x": "y"}}})
    http("POST", SERVICES, service("b"))
    _, deleted = http("DELETE", f"{SERVICES}?labelSelector=x%3Dy")
    assert [each["metadata"]["name"] for each in deleted["items"]] == ["a"]
    assert [each["metadata"]["name"] for each in http("GET", SERVICES)[1]["items"]] == ["b"]


def test_bearer_of_the_token_may_do_everything(http: Http) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    code, review = http("POST", path, {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})
    assert (code, review["kind"], review["status"]["allowed"]) == (201, "SelfSubjectAccessReview", True)


def test_too_large_a_body_is_refused(http: Http) -> None:
    code, status = http("POST", SERVICES, b" " * (3 * 1024 * 1024 + 1))
    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")


def test_events_are_shared_by_two_groups(http: Http) -> None:
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Node", "name": "a1"},
        "reason": "Starting",
        "action": "Start",
        "type": "Normal",
        "note": "hello",
        "eventTime": "2024-01-01T00:00:00.000000Z",
        "reportingController": "x",
        "reportingInstance": "x-1",
    }
    assert http("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)[0] == 201
    core = http("GET", "/api/v1/namespaces/default/events/e")[1]
    assert (core["message"], core["involvedObject"]["name"]) == ("hello", "a1")
    assert http("GET", "/apis/events.k8s.io/v1/events")[1]["items"][0]["note"] == "hello"


@pytest.mark.parametrize(("minor", "warned"), [(34, False), (35, True)])
def test_warnings_are_those_of_the_release(
    server: HttpServer, api: ApiServer, http: Any, minor: int, warned: bool
) -> None:
    server.replace(ApiServer(Features((1, minor)), predecessor=api))
    with http.open("POST", SERVICES, service(trafficDistribution="PreferClose")) as response:
        assert ("PreferSameZone" in response.headers.get("Warning", "")) == warned


def test_requests_are_recorded(http: Http, server: HttpServer) -> None:
    http("GET", f"{SERVICES}?limit=5", Accept="application/json", User_Agent="probe/1")
    record = server.requests()[-1]
    assert (record.method, record.path, record.query) == ("GET", SERVICES, "limit=5")
    assert (record.accept, record.user_agent) == ("application/json", "probe/1")


def test_further_sockets_are_served(server: HttpServer) -> None:
    sock = socket.create_server(("127.0.0.1", 0))
    url = f"https://127.0.0.1:{sock.getsockname()[1]}/healthz"
    server.listen(sock)
    tls = ssl.create_default_context(cadata=server.ca_pem)
    with urllib.request.urlopen(url, context=tls, timeout=10) as response:
        assert response.read() == b"ok"


def test_stopped_server_is_unreachable_and_can_be_stopped_again() -> None:
    server = HttpServer(ApiServer())
    server.start()
    server.stop()
    server.stop()
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_server_that_never_started_can_be_stopped() -> None:
    HttpServer(ApiServer()).stop()


def test_field_with_a_line_break_in_its_name_does_not_break_the_answer(http: Any) -> None:
    odd = {"metadata": {"name": "odd"}, "a\r\nInjected: yes": 1}
    with http.open("POST", "/api/v1/namespaces/default/configmaps", odd) as response:
        assert (response.status, response.headers["Injected"], response.headers["Warning"]) == (201, None, None)


@pytest.mark.parametrize(
    "options",
    [{"gracePeriodSeconds": "soon"}, {"gracePeriodSeconds": 1.5}, {"preconditions": []}, {"dryRun": "All"}, []],
)
def test_deletion_with_options_of_a_wrong_type_is_a_bad_request(http: Http, api: ApiServer, options: Any) -> None:
    api.create("services", "default", service())
    code, status = http("DELETE", f"{SERVICES}/web", options)
    assert (code, status["reason"]) == (400, "BadRequest")
    assert api.get("services", "default", "web")


def test_table_that_cannot_be_made_is_refused_before_anything_is_stored(http: Http, api: ApiServer) -> None:
    code, status = http("POST", f"{SERVICES}?includeObject=All", service(), Accept=TABLE)
    assert (code, status["message"]) == (400, "unrecognized includeObject value: 'All'")
    assert listed(api, "services") == []
