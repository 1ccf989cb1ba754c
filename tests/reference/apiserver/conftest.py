"""An API server for each test, both in this process and over HTTPS."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.api.client import Api
from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer

Object = dict[str, Any]


@pytest.fixture
def api() -> ApiServer:
    return ApiServer()


@pytest.fixture
def server(api: ApiServer) -> Iterator[HttpServer]:
    server = HttpServer(api, bookmark_seconds=0.2)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def kubeconfig(server: HttpServer, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(server.kubeconfig()))
    return path


class HttpsClient:
    """A plain HTTPS client that sends any bytes and returns the raw responses."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._tls = ssl.create_default_context(cadata=server.ca_pem)

    def open(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self._server.token}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self._server.url + path, data, sent, method=method)
        try:
            return urllib.request.urlopen(request, context=self._tls, timeout=20)
        except urllib.error.HTTPError as error:
            return error

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        with self.open(method, path, body, **headers) as response:
            return response.status, json.loads(response.read())


@pytest.fixture
def http(server: HttpServer) -> HttpsClient:
    return HttpsClient(server)


@pytest.fixture
def client(server: HttpServer) -> Iterator[Api]:
    """The harness's client, which keeps its connection open."""
    with contextlib.closing(Api(server.kubeconfig())) as made:
        yield made


@pytest.fixture
def openapi(client: Api) -> dict[str, Any]:
    """The OpenAPI version 3 documents, by their names in the index."""
    index = client.request("GET", "/openapi/v3").body["paths"]
    return {key: client.request("GET", each["serverRelativeURL"]).body for key, each in index.items()}


@pytest.fixture
def environment(kubeconfig: Path, tmp_path: Path) -> dict[str, str]:
    """Environment variables for programs. KUBECONFIG names the server, and HOME is a folder for caches."""
    return {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}


@pytest.fixture
def run(environment: dict[str, str]) -> Callable[..., str]:
    """Run a program until it exits, and return its output. If it fails, the error shows the output."""

    def run(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            arguments, input=stdin, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    return run
