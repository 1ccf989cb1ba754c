"""The API server stops and restarts, possibly at another release. The tests check the effect on clients."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyroute2 import IPRoute

from harness.netns.namespace import Namespace
from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer
from reference.features import Features
from tests.reference.api_server_calls import listed

CONFIGS = "/api/v1/namespaces/default/configmaps"
Http = Callable[..., tuple[int, Any]]


def port_of(server: HttpServer) -> int:
    return int(server.url.rpartition(":")[2])


def is_refused(address: tuple[str, int], family: socket.AddressFamily = socket.AF_INET) -> bool:
    with socket.socket(family) as sock:
        sock.settimeout(5)
        code = sock.connect_ex(address)
    assert code in {0, errno.ECONNREFUSED}
    return code != 0


def is_cut(connection: http.client.HTTPSConnection) -> bool:
    """Return whether the server has closed an open connection. If http.client notices the closing, it reconnects."""
    assert connection.sock is not None
    try:
        connection.sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return not connection.sock.recv(1)
    except ConnectionError:
        return True


@pytest.fixture
def connection(server: HttpServer) -> Iterator[http.client.HTTPSConnection]:
    """Yield a keep-alive connection that has served one request."""
    tls = ssl.create_default_context(cadata=server.ca_pem)
    connection = http.client.HTTPSConnection("127.0.0.1", port_of(server), context=tls, timeout=10)
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok"
    connection.auto_open = 0  # do not reconnect after the connection is cut
    yield connection
    connection.close()


@pytest.fixture
def netns(netns_allowed: None) -> Iterator[Namespace]:
    """Yield a netns with its loopback device up."""
    with Namespace.create() as namespace:
        with namespace.entered(), IPRoute() as kernel:
            kernel.link("set", index=1, state="up")
        yield namespace


def test_connections_are_refused_while_the_server_is_down(server: HttpServer) -> None:
    server.replace(None)
    assert is_refused(("127.0.0.1", port_of(server)))
    server.replace(None)
    assert is_refused(("127.0.0.1", port_of(server)))


def test_restarted_server_has_its_address_and_objects(server: HttpServer, api: ApiServer, http: Http) -> None:
    http("POST", CONFIGS, {"metadata": {"name": "a"}})
    for _ in range(3):
        server.replace(None)
        server.replace(api)
        assert http("GET", f"{CONFIGS}/a")[0] == 200  # the same port, certificate and token


def test_server_can_restart_as_another_release(server: HttpServer, api: ApiServer, http: Http) -> None:
    service = {"metadata": {"name": "web"}, "spec": {"trafficDistribution": "PreferClose", "ports": [{"port": 80}]}}
    path = "/api/v1/namespaces/default/services"
    http("POST", path, service)
    server.replace(ApiServer(Features((1, 29)), predecessor=api))
    assert http("GET", "/version")[1]["gitVersion"] == "v1.29.0"
    assert "trafficDistribution" not in http("GET", f"{path}/web")[1]["spec"]


def test_keep_alive_connection_is_closed_on_stop(server: HttpServer, connection: http.client.HTTPSConnection) -> None:
    server.replace(None)
    assert is_cut(connection)


def test_keep_alive_connection_does_not_reach_the_restarted_server(
    server: HttpServer, api: ApiServer, connection: http.client.HTTPSConnection
) -> None:
    server.replace(ApiServer(Features((1, 29)), predecessor=api))
    assert is_cut(connection)


def test_watch_ends_cleanly(server: HttpServer, api: ApiServer, http: Any) -> None:
    api.create("configmaps", "default", {"metadata": {"name": "a"}})
    with http.open("GET", f"{CONFIGS}?watch=true") as stream:
        assert json.loads(stream.readline())["object"]["metadata"]["name"] == "a"
        server.replace(None)
        assert stream.readline() == b""


def test_watch_resumes_if_no_event_was_missed(server: HttpServer, api: ApiServer, http: Any) -> None:
    revision = api.create("configmaps", "default", {"metadata": {"name": "a"}})["metadata"]["resourceVersion"]
    server.replace(heir := ApiServer(predecessor=api))
    with http.open("GET", f"{CONFIGS}?watch=true&resourceVersion={revision}") as stream:
        heir.create("configmaps", "default", {"metadata": {"name": "b"}})
        assert json.loads(stream.readline())["object"]["metadata"]["name"] == "b"
    with http.open("GET", f"{CONFIGS}?watch=true&resourceVersion={int(revision) - 1}") as stream:
        assert json.loads(stream.readline())["object"]["code"] == 410


def test_pending_handshake_reaches_no_server(server: HttpServer, api: ApiServer) -> None:
    with socket.create_connection(("127.0.0.1", port_of(server)), timeout=10) as raw:
        time.sleep(0.01)  # the server resets connections that it has not accepted yet
        server.replace(None)
        server.replace(api)
        with pytest.raises(OSError, match=r"EOF|reset|pipe"):
            ssl.create_default_context(cadata=server.ca_pem).wrap_socket(raw, server_hostname="localhost")


def test_port_stays_reserved(server: HttpServer) -> None:
    server.replace(None)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port_of(server)))


@pytest.mark.parametrize("address", [("127.0.0.1", 0), ("::1", 0)])
def test_socket_of_a_caller_is_served_again(server: HttpServer, api: ApiServer, address: tuple[str, int]) -> None:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.create_server(address, family=family)
    where = sock.getsockname()[:2]
    server.listen(sock)
    for _ in range(2):
        server.replace(None)
        assert is_refused(where, family)
        server.replace(api)
        assert not is_refused(where, family)


def test_socket_added_while_the_server_is_down_is_served_later(server: HttpServer, api: ApiServer) -> None:
    server.replace(None)
    sock = socket.create_server(("127.0.0.1", 0))
    where = sock.getsockname()
    server.listen(sock)
    assert is_refused(where)
    server.replace(api)
    assert not is_refused(where)


@pytest.mark.parametrize("port", [0, 443])
def test_socket_in_another_netns_is_served_again(
    server: HttpServer, api: ApiServer, netns: Namespace, port: int
) -> None:
    with netns.entered():
        sock = socket.create_server(("127.0.0.1", port))
    where = sock.getsockname()
    server.listen(sock)
    for there in (None, api):
        server.replace(there)
        with netns.entered():
            assert is_refused(where) == (there is None)


def test_recorded_requests_survive_a_restart(server: HttpServer, api: ApiServer, http: Http) -> None:
    http("GET", f"{CONFIGS}?limit=1")
    server.replace(None)
    server.replace(api)
    http("GET", f"{CONFIGS}?limit=2")
    assert [each.query for each in server.requests()] == ["limit=1", "limit=2"]


def test_server_can_start_and_end_in_the_stopped_state(api: ApiServer) -> None:
    server = HttpServer(api)
    server.replace(None)
    server.start()
    assert is_refused(("127.0.0.1", port_of(server)))
    server.stop()


def test_open_connections_do_not_delay_the_stop(server: HttpServer, api: ApiServer, http: Any) -> None:
    streams = [http.open("GET", f"{CONFIGS}?watch=true&allowWatchBookmarks=true") for _ in range(10)]
    for there in (None, api, None, api, None):
        server.replace(there)  # would wait until the streams are closed
    for each in streams:
        each.close()


def test_acknowledged_writes_survive_a_restart(
    server: HttpServer, api: ApiServer, connection: http.client.HTTPSConnection
) -> None:
    written: list[str] = []
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}

    def write() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # the connection is cut
            for index in range(1000):
                connection.request("POST", CONFIGS, json.dumps({"metadata": {"name": f"c{index}"}}), headers)
                answer = connection.getresponse()
                if json.loads(answer.read()) and answer.status == 201:
                    written.append(f"c{index}")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    while len(written) < 10:
        time.sleep(0.001)
    server.replace(heir := ApiServer(predecessor=api))
    writer.join()
    assert {each["metadata"]["name"] for each in listed(heir, "configmaps")} >= set(written)
