"""Tests HTTP to a pod by port-forward: each kind of error is distinguished."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest

from emulator.kubelet.server.server import KubeletServer
from harness.api.client import Api
from harness.backends.any_cluster.pods import ClientPod
from harness.backends.any_cluster.port_forwarding import get
from harness.control_planes.control_plane import KubeletTrust
from harness.errors import InconclusiveError
from harness.event_loop import EventLoop
from harness.netns.fabric import Host
from harness.netns.namespace import Namespace
from reference.apiserver.api import ApiServer
from reference.apiserver.server import HttpServer
from tests.ports import closed_port


class Here:
    """The netns of the test, which is used for both the node and the pod."""

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM) -> socket.socket:
        return socket.socket(family, kind)


class Pods:
    """One pod without containers."""

    def container(self, *_: str) -> None:
        return None

    def netns(self, *_: str) -> Any:
        return Here()


class Pod(ThreadingHTTPServer):
    """The pod's HTTP server. It answers /silence only at its end."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.closing = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Pod
    protocol_version = "HTTP/1.1"
    timeout = 5.0

    def do_GET(self) -> None:
        if self.path.startswith("/silence"):
            self.server.closing.wait(20)
        body = b'{"path": "%s"}' % self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def pod() -> Iterator[Pod]:
    with Pod() as pod:
        thread = threading.Thread(target=pod.serve_forever, args=(0.01,))
        thread.start()
        yield pod
        pod.closing.set()
        pod.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[HttpServer]:
    api = ApiServer()
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "a1"}
    api.create("pods", "default", {"metadata": {"name": "p"}, "spec": spec})
    address, node = f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}.9", Here()
    made = api.create("nodes", "", {"metadata": {"name": "a1"}})
    api.update_status("nodes", "", {**made, "status": {"addresses": [{"type": "InternalIP", "address": address}]}})
    loop = EventLoop("kubelet-loop")
    loop.start()
    trust, kubelet = KubeletTrust(), KubeletServer(Pods(), loop)
    kubelet.start([Host("a1", cast("Namespace", node), {"IPv4": address})], trust.of_kubelet([address]))
    http = HttpServer(api, kubelet_tls=trust.of_api_server())
    http.reach_pods(socket.socket)
    http.start()
    yield http
    http.stop()
    kubelet.close()
    loop.close()


@pytest.fixture
def api(server: HttpServer) -> Iterator[Api]:
    with closing(Api(server.kubeconfig(), timeout=5)) as made:
        yield made


def client(pod: Pod) -> ClientPod:
    return ClientPod("default", "p", pod.server_port)


def test_many_requests_each_have_their_answer(api: Api, pod: Pod) -> None:
    answers = [get(api, client(pod), "dial", {"n": str(number)}, 10.0) for number in range(3)]
    assert [(each.code, each.body["path"]) for each in answers] == [(200, f"/dial?n={number}") for number in range(3)]


def test_silent_pod_does_not_block(api: Api, pod: Pod) -> None:
    with pytest.raises(InconclusiveError, match="pod p was not reached by port-forward"):
        get(api, client(pod), "silence", {}, 0.2)


def test_pod_without_listener_is_reported(api: Api, pod: Pod) -> None:
    with closed_port() as port, pytest.raises(InconclusiveError, match="pod p was not reached by port-forward"):
        get(api, ClientPod("default", "p", port), "dial", {}, 10.0)


def test_forbidden_port_forward_returns_the_api_servers_answer(pod: Pod, server: HttpServer) -> None:
    with closing(Api(server.kubeconfig(token=server.add_user("alice")), timeout=5)) as api:
        answer = get(api, client(pod), "dial", {}, 10.0)
    assert answer.code == 403
    assert 'cannot get resource "pods/portforward"' in answer.body["message"]
