"""Tests that each error of an API server, a pod or a node becomes one line that says how to fix it."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
import urllib3

from harness.api.client import RefusedError, Response
from harness.errors import InconclusiveError
from harness.guest import errors

POD_SECURITY = 'pods "c" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)'
NO_RIGHT = 'pods is forbidden: User "bob" cannot create resource "pods" in API group "" in the namespace "shop"'
QUOTA = 'pods "w" is forbidden: exceeded quota: team, requested: pods=1, used: pods=10, limited: pods=10'


@pytest.mark.parametrize(
    ("code", "message", "said"),
    [
        (401, "Unauthorized", "does not accept the credentials"),
        (403, NO_RIGHT, "apply deploy/rbac.yaml"),
        (403, 'User "system:anonymous" cannot get path "/version"', "no valid credentials"),
        (
            403,
            QUOTA,
            "resource quota team is used up (requested pods=1, used: pods=10, limited: pods=10): increase the quota",
        ),
        (403, "failed quota: q: must specify limits.cpu for: c", "a resource quota requires fields"),
        (403, POD_SECURITY, "set pod-security.kubernetes.io/enforce themselves"),
        (403, 'admission webhook "x.example.com" denied the request: no', "an admission policy of the cluster"),
        (400, 'admission webhook "x.example.com" denied the request: no', "an admission webhook of the cluster"),
        (429, "too many requests", "fewer --workers"),
        (500, 'failed calling webhook "x.example.com": timeout', "does not answer"),
        (503, "service unavailable", "is the cluster up"),
        (500, "etcdserver: mvcc: database space exceeded", "see its log"),
        (422, "spec.x is invalid", "refuses to create pods: 422 spec.x is invalid"),
    ],
)
def test_refusals_are_explained(code: int, message: str, said: str) -> None:
    line = errors.of_answer(Response(code, {"message": message}), doing="create pods")
    assert said in line
    assert "\n" not in line


def test_a_refused_request_is_named() -> None:
    error = RefusedError("GET", "/api/v1/nodes", Response(403, {"message": "nodes is forbidden"}))
    assert "no permission to GET /api/v1/nodes (403 nodes is forbidden)" in errors.of(error)


@pytest.mark.parametrize(
    ("code", "message", "credentials"),
    [
        (401, "Unauthorized", True),
        (403, 'nodes is forbidden: User "system:anonymous" cannot list', True),
        (403, "log in again", False),
    ],
)
def test_rejected_credentials_are_reported(code: int, message: str, credentials: bool) -> None:
    error = RefusedError("GET", "/version", Response(code, {"message": message}))
    assert errors.is_of_credentials(error) is credentials
    assert ("log in again, or name a kubeconfig" in errors.of(error)) is credentials


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (urllib3.exceptions.NameResolutionError("api.invalid", None, OSError("x")), "name cannot be resolved"),  # type: ignore[arg-type]
        (urllib3.exceptions.ProtocolError("Connection aborted.", ConnectionResetError(104, "reset")), "ended"),
        (urllib3.exceptions.ProxyError("Unable to connect to proxy", OSError("407")), "the HTTP proxy"),
        (urllib3.exceptions.SSLError(ssl.SSLError("tlsv13 alert certificate required")), "the client certificate"),
    ],
)
def test_failed_connections_are_explained(error: urllib3.exceptions.HTTPError, said: str) -> None:
    outer = InconclusiveError("the API server did not answer")
    outer.__cause__ = error
    assert said in errors.of(outer)
    assert errors.is_of_credentials(outer) is (said == "the client certificate")


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "td", "name": "w"}, "spec": {"nodeName": "a1"}, "status": status}


def waiting(reason: str, message: str = "why\nso") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(phase="Pending", containerStatuses=[{"image": "agnhost@sha256:0", "state": state}])


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_image_that_cannot_be_pulled_is_reported(reason: str) -> None:
    expected = "pod td/w on node a1: image agnhost@sha256:0 cannot be pulled (why so): use a registry"
    assert errors.of_pod(waiting(reason)).startswith(expected)


@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull", "CrashLoopBackOff", "RunContainerError"])
def test_containers_that_do_not_start_are_reported(reason: str) -> None:
    assert errors.of_pod(waiting(reason)).startswith("pod td/w on node a1: ")


def test_unschedulable_pod_is_reported() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    assert "cannot be scheduled (0/3 nodes)" in errors.of_pod(pod(phase="Pending", conditions=[condition]))


def test_pod_refused_by_its_node_is_reported() -> None:
    assert "ended (OutOfpods too many)" in errors.of_pod(pod(phase="Failed", reason="OutOfpods", message="too many"))


def test_starting_pod_has_no_error() -> None:
    assert errors.of_pod(waiting("ContainerCreating")) == ""
    assert errors.of_pod(pod(phase="Running")) == ""


@pytest.mark.parametrize(
    ("status", "said"), [("True", ""), ("False", "is not ready (kubelet stopped)"), ("Unknown", "is not ready")]
)
def test_node_errors_are_reported(status: str, said: str) -> None:
    conditions = [{"type": "Ready", "status": status, "message": "kubelet stopped"}]
    line = errors.of_node("a1", {"metadata": {}, "status": {"conditions": conditions}})
    assert (said in line, bool(said)) == (True, bool(line))


def test_lost_node_is_reported() -> None:
    assert "node a1 was removed" in errors.of_node("a1", None)
