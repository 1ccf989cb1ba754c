"""Fixtures for tests of downloads: servers, an empty cache, and an environment without the user's settings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.binaries.cache import Cache
from tests import closed_ports
from tests.harness.binaries.download_server import Mirror, MirrorHandler


@pytest.fixture
def mirrors() -> Iterator[tuple[Mirror, Mirror]]:
    """Start two servers."""
    started = []
    for _ in range(2):
        mirror = Mirror()
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Serving", (MirrorHandler,), {"mirror": mirror}))
        mirror.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        started.append((mirror, server, thread))
    yield started[0][0], started[1][0]
    for _, server, thread in started:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def mirror(mirrors: tuple[Mirror, Mirror]) -> Mirror:
    """Start one server."""
    return mirrors[0]


@pytest.fixture
def closed_port() -> Iterator[str]:
    """Return the URL of a server that is down."""
    with closed_ports.closed_port() as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(autouse=True)
def no_assets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of the user who runs the tests."""
    for name in ("TRAFFICDIST_CACHE", "TRAFFICDIST_MIRROR", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """Return an empty cache."""
    return Cache(tmp_path / "cache")
