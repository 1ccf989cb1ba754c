"""Tests that each problem that prevents a run is reported early, in one line that says how to fix it."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from harness.errors import UnavailableError, UsageError
from harness.guest import preflight as module
from harness.guest.permissions import RULES
from harness.guest.preflight import preflight
from reference.apiserver.server import HttpServer
from tests.harness.guest.rbac_rules import as_rbac
from tests.reference.limited_users import add_user

Refusal = Callable[..., str]


@pytest.fixture
def refusal(server: HttpServer, tmp_path: Path) -> Refusal:
    """Return the one-line error for a kubeconfig with these changed fields of its cluster and user."""

    def ask(*, user: Any = None, context: str = "", within: float = 5.0, **cluster: str) -> str:
        kubeconfig = server.kubeconfig()
        kubeconfig["clusters"][0]["cluster"] |= cluster
        kubeconfig["users"][0]["user"] = user or kubeconfig["users"][0]["user"]
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig))
        with pytest.raises(UnavailableError) as refused:
            preflight(str(path), context, within=within)
        assert "\n" not in str(refused.value)
        return str(refused.value)

    return ask


@contextlib.contextmanager
def listening(*, backlog: int = 5) -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(backlog)
        yield sock


def url_of(sock: socket.socket) -> str:
    return f"https://127.0.0.1:{sock.getsockname()[1]}"


def test_serving_cluster_is_reachable(server: HttpServer, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(server.kubeconfig()))
    found = preflight(str(tmp_path / "kubeconfig"))
    assert (found.server, found.user, found.denied) == (server.url, "user admin", ())
    assert found.version["gitVersion"].startswith("v1.")
    assert abs(found.clock.ahead.total_seconds()) < 3


def test_refused_connection_is_reported(refusal: Refusal) -> None:
    with listening() as sock:
        url = url_of(sock)
    said = refusal(server=url)
    assert said.startswith(f"{url}: no server listens there (connection refused): is the cluster up")


@pytest.mark.parametrize("backlog", [5, 0])
def test_dropped_packets_are_reported(refusal: Refusal, monkeypatch: pytest.MonkeyPatch, backlog: int) -> None:
    """With a backlog, the TLS handshake gets no answer. Without a free place in the backlog, even the SYN gets none."""
    monkeypatch.setattr(module, "_REQUEST_SECONDS", 0.3)
    begin = time.monotonic()
    with listening(backlog=backlog) as sock, socket.socket() as taken:
        if not backlog:
            taken.connect(sock.getsockname())
        assert "no response, packets may be dropped" in refusal(server=url_of(sock))
    assert time.monotonic() - begin < 60


def test_endless_check_is_abandoned(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens with a slow name lookup or with an exec plugin that hangs."""
    ended = threading.Event()
    monkeypatch.setattr(module, "find", lambda *_, **__: ended.wait(20))
    assert "no response within 0.1 s" in refusal(within=0.1)
    ended.set()


def test_certificate_authority_of_another_cluster_is_reported(refusal: Refusal) -> None:
    other = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    assert "an authority that is not in the kubeconfig signed its certificate" in refusal(
        **{"certificate-authority-data": other}
    )


def test_invalid_certificate_authority_is_reported(refusal: Refusal) -> None:
    nonsense = base64.b64encode(b"nonsense").decode()
    assert "certificate-authority or client certificate" in refusal(**{"certificate-authority-data": nonsense})


def test_certificate_for_another_name_is_reported(refusal: Refusal) -> None:
    assert "its certificate is for another name" in refusal(**{"tls-server-name": "other.example.com"})


def test_rejected_credentials_are_reported(refusal: Refusal) -> None:
    said = refusal(user={"token": "expired"})
    assert "does not accept the credentials (401 Unauthorized): log in again" in said


def test_unknown_context_is_reported(server: HttpServer, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(server.kubeconfig()))
    with pytest.raises(UsageError, match="has no context 'prod'; its contexts are: trafficdist"):
        preflight(str(tmp_path / "kubeconfig"), "prod")


def test_server_without_tls_is_reported(refusal: Refusal) -> None:
    with listening() as sock:

        def answer() -> None:
            with contextlib.closing(sock.accept()[0]) as connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert "its TLS handshake failed" in refusal(server=url_of(sock))
        thread.join()


def test_server_that_is_not_an_api_server_is_reported(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as sock:

        def answer() -> None:
            with contextlib.closing(sock.accept()[0]) as connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\nHello")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        said = refusal(server=url_of(sock).replace("https", "http"))
        assert "a server that is not a Kubernetes API server answers GET /version with 404" in said
        thread.join()


def test_missing_permission_is_reported(refusal: Refusal, server: HttpServer) -> None:
    rules = [as_rbac(rule) for rule in RULES if rule.resources != ("pods",)]
    said = refusal(user={"token": add_user(server, "bob", rules)})
    assert "user bob may not create pods, delete pods" in said
    assert "deploy/rbac.yaml" in said


def test_expired_credentials_are_reported(refusal: Refusal, server: HttpServer) -> None:
    assert "does not accept the credentials (401" in refusal(user={"token": add_user(server, "bob", seconds=0)})
