"""kubectl shows container logs, and the server rejects invalid requests for logs."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from emulator.kubelet.container_log import ContainerLog
from harness.control_planes.control_plane import KubeletCertificates
from harness.eventually import eventually
from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer
from tests.reference.limited_users import add_user

PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture(autouse=True)
def log(container: Any) -> ContainerLog:
    log: ContainerLog = container.log
    log.write(b"one\ntwo\n")
    log.write(b"three\n", "stderr")
    return log


@pytest.fixture
def get(server: HttpServer) -> Callable[..., tuple[int, str]]:
    tls = ssl.create_default_context(cadata=server.ca_pem)

    def get(path: str, token: str = server.token) -> tuple[int, str]:
        request = urllib.request.Request(server.url + PATH + path, headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, context=tls, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())["message"]

    return get


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "one\ntwo\nthree\n"),
        (("--tail=1",), "three\n"),
        (("--limit-bytes=5",), "one\nt"),
        (("--since=1h",), "one\ntwo\nthree\n"),
        (("--since-time=2100-01-01T00:00:00Z",), ""),
        (("-c", "c"), "one\ntwo\nthree\n"),
    ],
)
def test_kubectl_shows_the_part_that_is_asked_for(
    kubectl: Callable[..., Any], arguments: tuple[str, ...], said: str
) -> None:
    done = kubectl("logs", "p", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


def test_lines_have_their_times(get: Callable[..., Any], log: ContainerLog) -> None:
    code, text = get("/p/log?timestamps=true&tailLines=1")
    assert (code, text) == (200, log.lines()[-1].shown(timestamps=True).decode())


def test_follower_receives_lines_until_the_container_ends(
    kubectl: Callable[..., Any], kubeconfig: Path, log: ContainerLog, tmp_path: Path
) -> None:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}
    with subprocess.Popen(
        ["kubectl", "logs", "-f", "--tail=1", "p"], env=environment, stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "three\n"
        log.write(b"four\n")
        assert following.stdout.readline() == "four\n"
        log.end()
        assert following.stdout.read() == ""
        assert following.wait(20) == 0


def test_previous_log_is_that_before_the_last_start(get: Callable[..., Any], container: Any) -> None:
    assert get("/p/log?previous=true") == (400, 'previous terminated container "c" in pod "p" not found')
    container.previous_log = ContainerLog()
    container.previous_log.write(b"before\n")
    assert get("/p/log?previous=true") == (200, "before\n")


def test_waiting_container_has_no_log(get: Callable[..., Any], container: Any) -> None:
    container.log = None
    container.state.state = {"waiting": {"reason": "ImagePullBackOff"}}
    said = 'container "c" in pod "p" is waiting to start: trying and failing to pull image'
    assert get("/p/log") == (400, said)


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/nobody/log", 404, 'pods "nobody" not found'),
        ("/gone/log", 404, 'pod "gone" does not exist'),
        ("/p/log?container=x", 400, "container x is not valid for pod p"),
        ("/p/log?tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("/p/log?sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ("/p/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, "at most one of `sinceTime` or `sinceSeconds`"),
        ("/p/log?sinceTime=yesterday", 400, 'parsing time "yesterday"'),
        ("/p/log?limitBytes=many", 400, 'parsing "many"'),
        ("/p/exec?command=true", 400, "Upgrade request required"),
    ],
)
def test_invalid_log_requests_are_refused(get: Callable[..., Any], path: str, code: int, said: str) -> None:
    found = get(path)
    assert (found[0], said in found[1]) == (code, True), found


def test_a_pod_on_no_node_has_written_nothing(get: Callable[..., Any]) -> None:
    assert get("/waiting/log") == (204, "")


def test_a_node_whose_kubelet_has_ended_is_an_error(get: Callable[..., Any], kubelet: Any, address: str) -> None:
    kubelet.close()
    code, said = get("/p/log")
    assert (code, f"dial tcp {address}:10250: connect: connection refused" in said) == (500, True)


@pytest.mark.parametrize("path", ["/p/log", "/p/exec?command=true&stdout=true"])
def test_another_server_at_its_address_is_not_trusted(api: ApiServer, kubelet: Any, address: str, path: str) -> None:
    server = HttpServer(api, kubelet_tls=KubeletCertificates().of_api_server())
    server.reach_pods(socket.socket)
    server.start()
    tls = ssl.create_default_context(cadata=server.ca_pem)
    headers = {"Authorization": f"Bearer {server.token}", "Connection": "Upgrade", "Upgrade": "websocket"}
    try:
        with closing(HTTPSConnection(urlsplit(server.url).netloc, context=tls, timeout=20)) as connection:
            connection.request("GET", PATH + path, headers=headers)
            answer = connection.getresponse()
            assert (answer.status, "CERTIFICATE_VERIFY_FAILED" in answer.read().decode()) == (500, True)
    finally:
        server.stop()


def test_forbidden_log_request_is_refused(get: Callable[..., Any], server: HttpServer) -> None:
    rules = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "pods/exec"]}
    token = add_user(server, "guest", [rules])
    code, said = get("/p/log", token)
    assert (code, 'cannot get resource "pods/log"' in said) == (403, True)
    code, said = get("/p/exec?command=true", token)
    assert (code, 'cannot create resource "pods/exec"' in said) == (403, True)


def test_a_client_without_a_certificate_is_not_served(kubelet: Any, address: str) -> None:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((OSError, ssl.SSLError)):
        urllib.request.urlopen(f"https://{address}:10250/healthz", context=tls, timeout=20).read()


def test_disconnected_followers_leave_nothing(kubectl: Any, kubeconfig: Path, container: Any) -> None:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with subprocess.Popen(["kubectl", "logs", "-f", "p"], env=environment, stdout=subprocess.PIPE) as following:
        assert following.stdout is not None
        following.stdout.readline()
        assert container.log._wakes
        following.kill()
    eventually(lambda: not container.log._wakes, describe="no follower")
