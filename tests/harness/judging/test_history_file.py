"""Tests that a packed history is restored byte for byte, and that any change to it is detected."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.judging import history, history_file
from harness.judging.history import History


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    with History(tmp_path / "run.jsonl") as written:
        for number in range(20):
            written.change("write slice", slice=f"web-{number}", text='"digest":"' + "0" * 64 + '"}')
    return (tmp_path / "run.jsonl").read_bytes()


def test_every_form_reads_as_the_same_bytes(content: bytes, tmp_path: Path) -> None:
    forms = {
        "a.jsonl": content,
        "a.jsonl.xz": lzma.compress(content),
        "b.jsonl.xz": history_file.packed(content),
    }
    for name, data in forms.items():
        (tmp_path / name).write_bytes(data)
        assert history_file.read(tmp_path / name) == content
        assert history.read(tmp_path / name).complete


def test_a_packed_history_has_one_digest(content: bytes) -> None:
    lines = lzma.decompress(history_file.packed(content)).splitlines()
    assert [number for number, line in enumerate(lines, 1) if line[-77:].startswith(b',"digest":"')] == [len(lines)]
    assert len(lines) == len(content.splitlines())


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines.pop(3),
        lambda lines: lines.insert(3, lines[4]),
        lambda lines: lines.__setitem__(3, lines[3].replace(b"web-2", b"web-3")),
        lambda lines: lines.__setitem__(3, b"\n"),
    ],
    ids=["removed", "added", "changed", "emptied"],
)
def test_a_change_to_a_packed_history_is_found(
    content: bytes, tmp_path: Path, change: Callable[[list[bytes]], object]
) -> None:
    lines = lzma.decompress(history_file.packed(content)).splitlines(keepends=True)
    change(lines)
    place = tmp_path / "run.jsonl.xz"
    place.write_bytes(lzma.compress(b"".join(lines)))
    with pytest.raises(UsageError, match=r"the digest does not match|not a record of a history"):
        history.read(place)


@pytest.mark.parametrize("how", ["no xz", "cut off", "with more behind it"])
def test_damaged_xz_is_refused(content: bytes, tmp_path: Path, how: str) -> None:
    packed = history_file.packed(content)
    place = tmp_path / "run.jsonl.xz"
    place.write_bytes({"no xz": b"plain", "cut off": packed[:-9], "with more behind it": packed + packed}[how])
    with pytest.raises(UsageError, match="its compressed data are damaged or incomplete"):
        history_file.read(place)


@pytest.mark.parametrize("line", [b"\n", b"x" * 1000 + b"\n"], ids=["empty lines", "long lines"])
def test_a_history_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_file, "MOST_BYTES", 4 * 1024 * 1024)
    place = tmp_path / "run.jsonl.xz"
    place.write_bytes(lzma.compress(line * (4 * 1024 * 1024 // (len(line) + 76))))
    with pytest.raises(UsageError, match="has more than 4 MiB"):
        history_file.read(place)
