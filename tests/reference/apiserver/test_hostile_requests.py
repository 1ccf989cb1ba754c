"""No request crashes the server. Rejected requests change nothing, and all clients can read the stored objects."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections import deque
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reference.apiserver import ApiServer
from reference.apiserver.access import bearer_of
from reference.apiserver.dispatcher import Dispatcher
from reference.apiserver.handlers import Response
from reference.apiserver.http_request import HttpRequest
from reference.apiserver.server import HttpServer
from reference.client import Event
from reference.endpointslice.index import ClusterIndex
from reference.pod_locator.controller import PodLocatorIndex
from tests.reference.api_server_calls import listed
from tests.reference.apiserver.hostile_requests import SOUND, HostileRequest, requests
from tests.reference.endpointslice.running_controller import RunningController
from tests.reference.limited_users import LimitedUsers

FORMS = (
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
)
YAML = "application/yaml"
PATCHES = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class DirectServer:
    """A server without connections. Tests call it directly."""

    def __init__(self) -> None:
        self.api = ApiServer()
        self.access = bearer_of("token")
        self._answers = Dispatcher(self.api.registry, deque(maxlen=1), self.access)

    def __call__(self, sent: HostileRequest, *, accept: str = "", token: str = "token") -> Response:
        headers = {"authorization": f"Bearer {token}", "content-type": sent.content_type, "accept": accept}
        answer = self._answers.answer(HttpRequest(sent.method, sent.path, "", sent.query, headers, sent.body))
        assert answer is not None
        return answer


def check(sent: list[HostileRequest]) -> None:
    asking = DirectServer()
    store = asking.api.registry.store
    for each in sent:
        before = store.revision
        answer = asking(each)
        assert answer.code < 500, (each, answer.body)
        if answer.code >= 400:
            assert store.revision == before, (each, answer.body)
    for collection in SOUND:
        for form in FORMS:
            assert asking(HostileRequest("GET", collection, b""), accept=form).code == 200
    be_read(asking.api)


def be_read(api: ApiServer) -> None:
    """Let the controllers process all stored objects."""
    index, locations = ClusterIndex(), PodLocatorIndex()
    for resource in ("services", "nodes", "pods", "endpointslices"):
        for obj in listed(api, resource):
            index.apply(Event("ADDED", resource, obj))
            if resource in {"nodes", "pods"}:
                locations.apply(Event("ADDED", resource, obj))
    _ = index.zones.shares
    for key in list(locations.keys()):
        locations.wanted(key)
    for service in index.services:
        list(index.pods_of(service))


@given(sent=st.lists(requests(), min_size=1, max_size=6))
@settings(max_examples=250, suppress_health_check=list(HealthCheck))
def test_malformed_requests_get_a_client_error(sent: list[HostileRequest]) -> None:
    check(sent)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(sent=st.lists(requests(), min_size=1, max_size=20))
@settings(max_examples=6_000, suppress_health_check=list(HealthCheck))
def test_malformed_requests_get_a_client_error_for_a_minute(sent: list[HostileRequest]) -> None:
    check(sent)


def aliases(levels: int) -> bytes:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines).encode()


def doubling(times: int) -> bytes:
    copies = [{"op": "copy", "from": "/data", "path": f"/data/x{n}"} for n in range(times)]
    return orjson.dumps([{"op": "add", "path": "/data/seed", "value": "x" * 1000}, *copies])


def config_map(**fields: Any) -> bytes:
    return orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two"}, **fields})


PODS = "/api/v1/namespaces/default/pods"
POD = {"spec": {"containers": [{"name": "a", "image": "b"}], "x": "x" * 1_600_000}}
SERVICES = "/api/v1/namespaces/default/services"
NUMBERS = [{"op": "add", "path": "/binaryData", "value": {}}, {"op": "add", "path": "/x", "value": [1] * 200_000}]
SHIFTS = [{"op": op, "path": "/x/0", **({"value": 1} if op == "add" else {})} for op in ("add", "remove") * 4000]

BOMBS = {
    "aliases": (HostileRequest("POST", CONFIG_MAPS, aliases(9), YAML), 400, "aliases are not accepted"),
    "deep YAML": (HostileRequest("POST", CONFIG_MAPS, b"[" * 5000, YAML), 400, "max depth"),
    "deep JSON": (HostileRequest("POST", CONFIG_MAPS, b'{"data":' + b"[" * 900 + b"]" * 900 + b"}"), 400, "max depth"),
    "deeper JSON": (HostileRequest("POST", CONFIG_MAPS, b"[" * 100_000), 400, ""),
    "long YAML": (HostileRequest("POST", CONFIG_MAPS, b"a: " + b"x" * 300_000, YAML), 413, "262144 bytes"),
    "doubling": (HostileRequest("PATCH", f"{CONFIG_MAPS}/one", doubling(40), PATCHES), 413, "copies may add at most"),
    "shifts": (
        HostileRequest("PATCH", f"{CONFIG_MAPS}/one", orjson.dumps(NUMBERS + SHIFTS), PATCHES),
        413,
        "may shift at most",
    ),
    "large": (HostileRequest("POST", PODS, orjson.dumps({"metadata": {"name": "a"}, **POD})), 413, "is too large"),
    "items": (
        HostileRequest("POST", SERVICES, orjson.dumps({"spec": {"ports": [{}] * 60_000}})),
        400,
        "too many items",
    ),
    "texts": (
        HostileRequest("POST", CONFIG_MAPS, config_map(metadata={"finalizers": [""] * 300_000})),
        400,
        "too many items",
    ),
    "faults": (
        HostileRequest("POST", SERVICES, orjson.dumps({"spec": {"ports": [{}] * 49_000}})),
        422,
        "spec.ports[0].name",
    ),
    "controllers": (
        HostileRequest(
            "POST", CONFIG_MAPS, config_map(metadata={"name": "a", "ownerReferences": [{"controller": True}] * 2})
        ),
        422,
        "ownerReferences[0].name",
    ),
    "text among objects": (
        HostileRequest(
            "PATCH", f"{CONFIG_MAPS}/one", b'{"metadata":{"ownerReferences":[{"$patch":"replace"},1]}}', STRATEGIC
        ),
        400,
        "",
    ),
    "number in YAML": (
        HostileRequest("POST", CONFIG_MAPS, b"a: " + b"1" * 5_000, YAML),
        400,
        "more than 100 characters",
    ),
    "hexadecimal in YAML": (
        HostileRequest("POST", CONFIG_MAPS, b"a: 0x" + b"1" * 5_000, YAML),
        400,
        "more than 100 characters",
    ),
    "base 60 in YAML": (
        HostileRequest("POST", CONFIG_MAPS, b"a: 1" + b":1" * 100_000, YAML),
        400,
        "more than 100 characters",
    ),
    "number in JSON": (
        HostileRequest("POST", SERVICES, b'{"spec":{"ports":[{"port":' + b"1" * 5_000 + b"}]}}"),
        400,
        "",
    ),
    "resourceVersion": (
        HostileRequest("GET", CONFIG_MAPS, b"", query={"resourceVersion": "9" * 5_000}),
        400,
        "out of range",
    ),
    "limit": (HostileRequest("GET", CONFIG_MAPS, b"", query={"limit": "9" * 5_000}), 400, "integer of 64 bits"),
    "long limit": (HostileRequest("GET", CONFIG_MAPS, b"", query={"limit": "9" * 30}), 400, "integer of 64 bits"),
    "operations": (HostileRequest("PATCH", f"{CONFIG_MAPS}/one", orjson.dumps([{}] * 10_001), PATCHES), 413, "10001"),
    "in a review": (
        HostileRequest("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", aliases(9), YAML),
        400,
        "aliases are not accepted",
    ),
}


@pytest.mark.parametrize(("sent", "code", "said"), BOMBS.values(), ids=list(BOMBS))
def test_yaml_that_expands_is_refused_immediately(sent: HostileRequest, code: int, said: str) -> None:
    asking = DirectServer()
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {}}
    assert asking(HostileRequest("POST", CONFIG_MAPS, orjson.dumps(made))).code == 201
    begun = time.process_time()
    answer = asking(sent)
    assert time.process_time() - begun < 20  # about 1 s; what is expanded takes minutes
    assert answer.code == code
    assert said in json.loads(answer.body)["message"]


def test_forbidden_write_is_refused_before_its_body_is_read() -> None:
    asking = DirectServer()
    token = LimitedUsers(asking.access).add("nobody")
    assert asking(HostileRequest("POST", CONFIG_MAPS, b"{", YAML), token=token).code == 403


@pytest.mark.parametrize("token", ["\udcff\udcfe", "é", "\x00"])
def test_token_with_unusual_bytes_is_unauthorized(token: str) -> None:
    assert DirectServer()(HostileRequest("GET", CONFIG_MAPS, b""), token=token).code == 401


def test_yaml_without_aliases_is_read() -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata:\n  a: b\n"
    assert json.loads(DirectServer()(HostileRequest("POST", CONFIG_MAPS, body, YAML)).body)["data"] == {"a": "b"}


def test_large_configuration_in_json_is_applied() -> None:
    """kubectl applies JSON under a content type of YAML."""
    asking = DirectServer()
    sent = HostileRequest(
        "PATCH", f"{CONFIG_MAPS}/two", config_map(data={"a": "x" * 300_000}), "application/apply-patch+yaml"
    )
    assert asking(replace(sent, query={"fieldManager": "test"})).code == 201


def test_number_in_base_60_is_a_text() -> None:
    """YAML 1.1 reads 1:30 as 90, and Kubernetes as a string."""
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: 1:30, b: 1:30.5}\n"
    assert json.loads(DirectServer()(HostileRequest("POST", CONFIG_MAPS, body, YAML)).body)["data"] == {
        "a": "1:30",
        "b": "1:30.5",
    }


def test_error_of_many_faults_is_short() -> None:
    answer = DirectServer()(HostileRequest("POST", SERVICES, orjson.dumps({"spec": {"ports": [{}] * 49_000}})))
    assert len(answer.body) < 1_000_000


def test_patch_that_nests_deeply_is_refused() -> None:
    asking = DirectServer()
    pod = {"metadata": {"name": "one"}, "spec": {"containers": [{"name": "a", "image": "b"}], "a": {}, "b": {"a": {}}}}
    assert asking(HostileRequest("POST", "/api/v1/namespaces/default/pods", orjson.dumps(pod))).code == 201
    moves = [{"op": "add", "path": f"/spec/{x}", "value": {}} for x in "ab"]
    for number in range(150):
        one, other = ("a", "b") if number % 2 else ("b", "a")
        moves += [{"op": "move", "from": f"/spec/{one}", "path": f"/spec/{other}/x"}]
        moves += [{"op": "add", "path": f"/spec/{one}", "value": {}}]
    answer = asking(HostileRequest("PATCH", "/api/v1/namespaces/default/pods/one", orjson.dumps(moves), PATCHES))
    assert answer.code == 400
    assert "max depth" in json.loads(answer.body)["message"]


def test_silent_connection_is_closed() -> None:
    server = HttpServer(ApiServer(), silence_seconds=0.1)
    server.start()
    try:
        host, port = server.url.removeprefix("https://").split(":")
        tls = ssl.create_default_context(cadata=server.ca_pem)
        with (
            socket.create_connection((host, int(port)), timeout=20) as raw,
            tls.wrap_socket(raw, server_hostname=host, suppress_ragged_eofs=True) as silent,
        ):
            assert silent.recv(1) == b""
    finally:
        server.stop()


def test_conditions_without_a_status_are_not_true() -> None:
    asking = DirectServer()
    node: dict[str, Any] = {"metadata": {"name": "a1"}, "status": {"conditions": [{"type": "Ready"}]}}
    assert asking(HostileRequest("POST", "/api/v1/nodes", orjson.dumps(node))).code == 201
    be_read(asking.api)


def test_controller_goes_on_after_an_object_that_it_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = ClusterIndex.apply

    def trips(index: ClusterIndex, event: Event) -> Any:
        if event.object["metadata"]["name"] == "odd":
            raise KeyError("status")
        return read(index, event)

    monkeypatch.setattr(ClusterIndex, "apply", trips)
    with RunningController() as live:
        live.api.create("nodes", "", {"metadata": {"name": "odd"}})
        live.create_service()
        live.settle()
        assert listed(live.api, "endpointslices")
