"""Requests that the API server forwards to kubelets, and the errors that it reports itself.

Other tests use a real kubelet.
"""

from __future__ import annotations

from typing import Any

import pytest

from reference.apiserver import ApiServer

PATH = "/api/v1/namespaces/default/pods/p"


@pytest.fixture(autouse=True)
def pod(api: ApiServer) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "a1"}
    api.create("pods", "default", {"metadata": {"name": "p"}, "spec": spec})


@pytest.fixture
def node(api: ApiServer) -> None:
    api.create("nodes", "", {"metadata": {"name": "a1"}})


@pytest.mark.usefixtures("node")
def test_logs_are_unavailable_without_access_to_nodes(http: Any, api: ApiServer) -> None:
    made = api.get("nodes", "", "a1")
    address = {"type": "InternalIP", "address": "192.0.2.1"}
    api.update_status("nodes", "", {**made, "status": {"addresses": [address]}})
    code, status = http("GET", f"{PATH}/log")
    assert (code, "no access to the pod network" in status["message"]) == (503, True)


@pytest.mark.usefixtures("node")
def test_a_node_without_an_address_is_an_error(http: Any) -> None:
    code, status = http("GET", f"{PATH}/log")
    assert (code, "no preferred addresses found" in status["message"]) == (500, True)


def test_deleted_node_is_not_found(http: Any) -> None:
    code, status = http("GET", f"{PATH}/exec?command=true")
    assert (code, status["message"]) == (404, 'nodes "a1" not found')


@pytest.mark.parametrize(("method", "subresource"), [("POST", "log"), ("PUT", "exec"), ("DELETE", "exec")])
def test_other_methods_are_not_allowed(http: Any, method: str, subresource: str) -> None:
    assert http(method, f"{PATH}/{subresource}")[0] == 405
