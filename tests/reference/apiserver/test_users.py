"""Responses to users whose RBAC rules limit their permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer
from tests.reference.limited_users import add_user, revoke

Http = Callable[..., tuple[int, Any]]
PODS = "/api/v1/namespaces/shop/pods"
READ_PODS = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"]}
AS = "/apis/authorization.k8s.io/v1/"


def field(number: int, value: bytes) -> bytes:
    """Return a length-delimited protobuf field."""
    return bytes([number << 3 | 2, len(value)]) + value


def ask(http: Http, token: str, method: str, path: str, body: Any = None) -> tuple[int, str]:
    code, answer = http(method, path, body, Authorization=f"Bearer {token}")
    return code, answer.get("message", "")


@pytest.fixture(autouse=True)
def shop(api: ApiServer) -> None:
    api.create("namespaces", "", {"metadata": {"name": "shop"}})


@pytest.mark.parametrize(
    ("request_line", "named", "said"),
    [
        (f"POST {PODS}", "pods", 'create resource "pods" in API group "" in the namespace "shop"'),
        (f"GET {PODS}/p", 'pods "p"', 'get resource "pods" in API group "" in the namespace "shop"'),
        ("GET /api/v1/nodes", "nodes", 'list resource "nodes" in API group "" at the cluster scope'),
        ("GET /api/v1/nodes?watch=1", "nodes", 'watch resource "nodes" in API group "" at the cluster scope'),
        (f"PATCH {PODS}/p/status", 'pods "p"', 'patch resource "pods/status" in API group "" in the namespace "shop"'),
        (f"GET {PODS}/p:1/proxy/", 'pods "p:1"', 'get resource "pods/proxy" in API group "" in the namespace "shop"'),
        ("DELETE /apis/coordination.k8s.io/v1/namespaces/shop/leases", "leases.coordination.k8s.io",
         'deletecollection resource "leases" in API group "coordination.k8s.io" in the namespace "shop"'),
        ("DELETE /api/v1/namespaces/shop", 'namespaces "shop"',
         'delete resource "namespaces" in API group "" in the namespace "shop"'),
    ],
)  # fmt: skip
def test_forbidden_request_names_verb_and_resource(
    http: Http, server: HttpServer, request_line: str, named: str, said: str
) -> None:
    token = add_user(server, "guest")
    answer = ask(http, token, *request_line.split(" "))
    assert answer == (403, f'{named} is forbidden: User "guest" cannot {said}')


def test_rules_of_a_user_apply_in_every_namespace(http: Http, server: HttpServer) -> None:
    token = add_user(server, "guest", [READ_PODS])
    assert ask(http, token, "GET", PODS)[0] == ask(http, token, "GET", "/api/v1/pods")[0] == 200
    assert ask(http, token, "DELETE", f"{PODS}/p")[0] == 403


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, True),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/proxy"]}, True),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["*/proxy"]}, True),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, False),
        ({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["pods/proxy"]}, False),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/proxy"], "resourceNames": ["q"]}, False),
    ],
)
def test_rule_covers_subresources_that_it_names(
    http: Http, server: HttpServer, rule: dict[str, Any], allowed: bool
) -> None:
    token = add_user(server, "guest", [rule])
    assert (ask(http, token, "GET", f"{PODS}/p:80/proxy/")[0] != 403) is allowed


def test_token_expires(http: Http, server: HttpServer) -> None:
    revoked, old = add_user(server, "guest", [READ_PODS]), add_user(server, "guest", [READ_PODS], seconds=0)
    revoke(server, revoked)
    assert ask(http, revoked, "GET", PODS) == ask(http, old, "GET", PODS) == (401, "Unauthorized")


def test_users_survive_replacement_of_the_server(http: Http, api: ApiServer, server: HttpServer) -> None:
    token = add_user(server, "guest", [READ_PODS])
    server.replace(ApiServer(predecessor=api))
    assert ask(http, token, "GET", PODS)[0] == 200


@pytest.mark.parametrize(("verb", "allowed"), [("list", True), ("create", False)])
def test_access_review_reports_permissions(http: Http, server: HttpServer, verb: str, allowed: bool) -> None:
    token = add_user(server, "guest", [READ_PODS])
    spec: dict[str, Any] = {"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": "shop"}}
    _, review = http("POST", f"{AS}selfsubjectaccessreviews", {"spec": spec}, Authorization=f"Bearer {token}")
    assert review["status"]["allowed"] is allowed


def test_review_in_protobuf_is_read(http: Http, server: HttpServer) -> None:
    """kubectl sends the namespace, verb and resource in fields 1, 2 and 5."""
    attributes = field(1, b"shop") + field(2, b"create") + field(5, b"pods")
    kind = field(1, b"authorization.k8s.io/v1") + field(2, b"SelfSubjectAccessReview")
    body = b"k8s\0" + field(1, kind) + field(2, field(2, field(1, attributes)))
    token = add_user(server, "guest")
    headers = {"Authorization": f"Bearer {token}", "Content_Type": "application/vnd.kubernetes.protobuf"}
    code, answer = http("POST", f"{AS}selfsubjectaccessreviews", body, **headers)
    assert (code, answer["status"]["allowed"]) == (201, False)
    assert answer["spec"]["resourceAttributes"] == {"namespace": "shop", "verb": "create", "resource": "pods"}


def test_every_user_may_use_discovery_and_self_reviews(http: Http, server: HttpServer) -> None:
    token = add_user(server, "guest")
    assert ask(http, token, "GET", "/version")[0] == ask(http, token, "GET", "/api/v1")[0] == 200
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    review = http("POST", path, {}, Authorization=f"Bearer {token}")[1]
    assert review["status"]["userInfo"] == {"username": "guest", "groups": ["system:authenticated"]}
