"""Tests the download of a file over HTTP. An interrupted transfer is repeated, and a corrupt file is deleted."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness.binaries.download import Fetcher, FileMissingError
from harness.errors import UnavailableError, UsageError
from tests.harness.binaries.download_server import Mirror, ProgressRecorder

CONTENT = bytes(range(256)) * 1000
SUM = hashlib.sha256(CONTENT).hexdigest()
FETCHER = Fetcher(timeout=5, attempts=3, pause=lambda seconds: None)


def get(mirror: Mirror | list[str], target: Path, heard: ProgressRecorder | None = None) -> str:
    urls = [f"{mirror.url}/file"] if isinstance(mirror, Mirror) else mirror
    return FETCHER.file(urls, target, SUM, heard or ProgressRecorder())


def test_file_is_complete(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["/file"] = CONTENT
    assert get(mirror, tmp_path / "file") == f"{mirror.url}/file"
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_interrupted_download_is_repeated(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["/file"] = CONTENT
    mirror.break_off["/file"] = [100_000, 50_000]
    heard = ProgressRecorder()
    get(mirror, tmp_path / "file", heard)
    assert [line.partition(" (")[0] for line in heard.lines] == ["interrupted after 0.1 MB"] * 2
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_redirect_is_followed_when_a_download_is_repeated(mirrors: tuple[Mirror, Mirror], tmp_path: Path) -> None:
    front, behind = mirrors
    front.moved["/file"] = f"{behind.url}/elsewhere"
    behind.files["/elsewhere"] = CONTENT
    behind.break_off["/elsewhere"] = [100_000]
    get(front, tmp_path / "file")
    assert behind.requests == ["/elsewhere", "/elsewhere"]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_download_that_is_always_interrupted_fails(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["/file"] = CONTENT
    mirror.break_off["/file"] = [100_000, 100_000, 100_000]
    with pytest.raises(UnavailableError, match="ended after 100000 of 256000 bytes"):
        get(mirror, tmp_path / "file")
    assert len(mirror.requests) == 3
    get(mirror, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_mirror_that_sends_nothing_is_left_at_once_after_one_that_was_interrupted(
    mirrors: tuple[Mirror, Mirror], closed_port: str, tmp_path: Path
) -> None:
    broken, good = mirrors
    broken.files["/file"] = good.files["/file"] = CONTENT
    broken.break_off["/file"] = [100_000, 100_000, 100_000]
    heard = ProgressRecorder()
    urls = [f"{broken.url}/file", f"{closed_port}/file", f"{good.url}/file"]
    assert get(urls, tmp_path / "file", heard) == f"{good.url}/file"
    assert len([each for each in heard.lines if each.startswith("interrupted")]) == 2


def test_a_wrong_sum_leaves_nothing(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["/file"] = CONTENT + b"!"
    with pytest.raises(UnavailableError, match=f"SHA-256 sum is .*, not {SUM}"):
        get(mirror, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
    assert mirror.requests == ["/file"]


def test_unusable_mirror_is_skipped(mirrors: tuple[Mirror, Mirror], closed_port: str, tmp_path: Path) -> None:
    lying, good = mirrors
    lying.files["/file"], good.files["/file"] = b"!" + CONTENT[1:], CONTENT
    urls = [f"{closed_port}/file", f"{lying.url}/none", f"{lying.url}/file", f"{good.url}/file"]
    assert get(urls, tmp_path / "file") == f"{good.url}/file"
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_file_is_missing_only_if_every_mirror_lacks_it(mirror: Mirror, closed_port: str, tmp_path: Path) -> None:
    with pytest.raises(FileMissingError, match="404"):
        get([f"{mirror.url}/file"], tmp_path / "file")
    with pytest.raises(UnavailableError, match=r"refused[^$]*choose a --mirror") as down:
        get([f"{mirror.url}/file", f"{closed_port}/file"], tmp_path / "file")
    assert not isinstance(down.value, FileMissingError)


def test_only_http_urls_are_accepted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="http://"):
        get(["file:///etc/passwd"], tmp_path / "file")
