"""A fixture that starts an empty API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.api.client import Api
from reference.apiserver.api import ApiServer
from reference.apiserver.server import HttpServer


@pytest.fixture
def server() -> Iterator[HttpServer]:
    http = HttpServer(ApiServer())
    http.start()
    yield http
    http.stop()


@pytest.fixture
def api(server: HttpServer) -> Iterator[Api]:
    api = Api(server.kubeconfig(), timeout=5)
    yield api
    api.close()
