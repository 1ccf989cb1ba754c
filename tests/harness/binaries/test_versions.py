"""Tests how versions given by users are parsed."""

from __future__ import annotations

import pytest

from harness.binaries.versions import Version, parse_version, parse_wanted
from harness.errors import UsageError

VERSIONS = [Version(1, 34, 2), Version(1, 34, 10), Version(1, 35, 0, "rc.1"), Version(1, 33, 9)]


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("1.34", ["1.34.10", "1.34.2"]),
        ("v1.34", ["1.34.10", "1.34.2"]),
        ("1.34.2", ["1.34.2"]),
        ("", ["1.34.10", "1.34.2", "1.33.9"]),
        ("newest", ["1.34.10", "1.34.2", "1.33.9"]),
        ("1.35", []),
        ("1.35.0-rc.1", ["1.35.0-rc.1"]),
    ],
)
def test_request_selects_the_newest_and_pre_releases_only_by_name(text: str, chosen: list[str]) -> None:
    assert [str(each) for each in parse_wanted(text).choose(VERSIONS)] == chosen


@pytest.mark.parametrize("text", ["1", "kube-proxy", "1.34.x", "1.34.2.1", "../1.34.2"])
def test_invalid_version_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected one like 1\.34\.2"):
        parse_wanted(text)


def test_numbers_in_pre_releases_are_ordered_as_numbers() -> None:
    texts = ["1.35.0-alpha.2", "1.35.0-alpha.10", "1.35.0-rc.0", "1.35.0", "1.35.1"]
    assert [str(each) for each in sorted(filter(None, map(parse_version, reversed(texts))))] == texts
