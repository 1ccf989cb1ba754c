"""Answers of an API server are read as they were meant."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import urllib3

from harness.api.client import Api, warning_texts
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
