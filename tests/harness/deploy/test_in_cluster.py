"""Tests that in a pod, the files of the service account and two environment variables replace a kubeconfig."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.api.client import Api
from harness.api.connection import find
from harness.api.kubeconfig import InClusterConfig
from harness.errors import UsageError
from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    """Start an API server over HTTPS that requires a token."""
    server = HttpServer(ApiServer())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def folder(server: HttpServer, tmp_path: Path) -> Path:
    """Return a folder with the files that a kubelet mounts into a pod."""
    for name, text in (("token", server.token), ("ca.crt", server.ca_pem), ("namespace", "trafficdist-job")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def variables(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment variables that a kubelet sets in a pod."""
    place = urlsplit(server.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(place.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(place.port))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def code(api: Api) -> int:
    return api.request("GET", "/api/v1/nodes").code


def test_pod_reaches_its_api_server(folder: Path) -> None:
    found = InClusterConfig(folder)
    api = Api(found)
    assert (code(api), found.namespace) == (200, "trafficdist-job")
    api.close()


def test_renewed_token_is_used_from_the_next_request_on(server: HttpServer, folder: Path) -> None:
    api = Api(InClusterConfig(folder))
    (folder / "token").write_text("of-an-hour-ago", encoding="utf-8")
    assert code(api) == 401
    (folder / "token").write_text(server.token + "\n", encoding="utf-8")
    assert code(api) == 200
    api.close()


@pytest.mark.parametrize(
    ("lost", "said"),
    [("token", "token file does not exist"), ("ca.crt", "certification file does not exist"), ("namespace", "No such")],
)
def test_missing_service_account_file_is_reported(folder: Path, lost: str, said: str) -> None:
    (folder / lost).unlink()
    with pytest.raises(UsageError, match=f"kubeconfig of the service account, {folder}: .*{said}"):
        InClusterConfig(folder)


def test_kubeconfig_comes_before_the_service_account(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("harness.api.connection.SERVICE_ACCOUNT", folder)
    assert isinstance(find(), InClusterConfig)
    with pytest.raises(UsageError, match="no such file"):
        find("/no/such")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(UsageError, match="no such file"):
        find()
