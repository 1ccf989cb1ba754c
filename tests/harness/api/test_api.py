"""Tests how the API client reads responses and retries requests."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3

from harness.api.client import Api, Response, warning_texts
from reference.apiserver.api import ApiServer
from reference.apiserver.server import HttpServer


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ('299 - "annotation x is deprecated"', "annotation x is deprecated"),
        (
            r'299 - "\"PreferClose\" is deprecated; use \"PreferSameZone\""',
            '"PreferClose" is deprecated; use "PreferSameZone"',
        ),
        (r'299 - "a \\ b"', "a \\ b"),
    ],
)
def test_quotes_inside_a_warning_are_kept(header: str, text: str) -> None:
    headers = urllib3.HTTPHeaderDict({"Warning": header})
    assert warning_texts(headers) == [text]


def test_each_warning_header_is_one_warning() -> None:
    headers = urllib3.HTTPHeaderDict()
    for header in ('299 - "one"', '299 - "two"', "299 - nothing quoted"):
        headers.add("Warning", header)
    assert warning_texts(headers) == ["one", "two"]


def test_a_client_writes_no_certificate_to_the_temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    server = HttpServer(ApiServer())
    server.start()
    try:
        api = Api(server.kubeconfig(), timeout=5)
        assert api.list("nodes") == []
        assert list(tmp_path.iterdir()) == []
        api.close()
    finally:
        server.stop()


class _BusyServer(BaseHTTPRequestHandler):
    """An HTTP server. It answers 429 with the next of `waits` as Retry-After, and 200 after the last one."""

    waits: list[str]
    asked: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(self.path)
        self.send_response(429 if self.waits else 200)
        if self.waits and (wait := self.waits.pop(0)):
            self.send_header("Retry-After", wait)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def busy() -> Iterator[str]:
    """Return the URL of the busy server."""
    _BusyServer.waits, _BusyServer.asked = [], []
    with ThreadingHTTPServer(("127.0.0.1", 0), _BusyServer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _ask(url: str) -> Response:
    cluster, context = {"server": url}, {"cluster": "busy", "user": "me"}
    kubeconfig = {
        "clusters": [{"name": "busy", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "contexts": [{"name": "busy", "context": context}],
        "current-context": "busy",
    }
    api = Api(kubeconfig, timeout=5)
    try:
        return api.request("POST", "/api/v1/namespaces", {})
    finally:
        api.close()


@pytest.mark.parametrize(
    ("waits", "code", "requests"),
    [
        ([], 200, 1),
        (["0"], 200, 2),
        (["0", "0", "0"], 200, 4),
        (["0"] * 20, 429, 10),  # the server never stops
        (["3600"], 429, 1),  # longer than any client waits
        (["Fri, 31 Dec 9999 23:59:59 GMT"], 429, 1),
        (["Fri, 31 Dec 1999 23:59:59 GMT"], 200, 2),
        (["soon"], 429, 1),
        ([""], 429, 1),  # a PodDisruptionBudget rejects an eviction like this
    ],
)
def test_client_retries_after_the_delay_the_server_requests(
    busy: str, waits: list[str], code: int, requests: int
) -> None:
    _BusyServer.waits = waits

    answer = _ask(busy)

    assert (answer.code, len(_BusyServer.asked)) == (code, requests)


def test_client_waits_for_the_retry_after_time(busy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("harness.api.client.time.sleep", waited.append)
    _BusyServer.waits = ["2", "1"]

    assert _ask(busy).code == 200
    assert waited == [2, 1]
