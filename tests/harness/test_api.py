"""Answers of an API server are read as they were meant."""

from __future__ import annotations

import pytest
import urllib3

from harness.api import warning_texts


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
