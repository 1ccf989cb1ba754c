"""evidence.txt explains every failure and has at most 100 kB."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.report import published_report
from tools.shelf.excerpts import excerpts

FOLDER = "evidence/KEP-1"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return tmp_path


def write(folder: Path, test: str, files: Mapping[str, str | bytes]) -> list[str]:
    """Write the evidence of a test, and return its paths."""
    (folder / FOLDER / test).mkdir(parents=True)
    for name, text in files.items():
        (folder / FOLDER / test / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return [f"{FOLDER}/{test}/{name}" for name in files]


def read(folder: Path, *tests: list[str]) -> dict[str, str]:
    """Make evidence.txt, and return its excerpts by path."""
    text = excerpts(folder, tests)
    assert len(text.encode()) <= published_report.MOST_BYTES
    (folder / "evidence.txt").write_text(text, encoding="utf-8")
    return published_report.excerpts(folder)


def test_explanation_of_a_failure_comes_first_and_binary_files_are_omitted(made: Path) -> None:
    files = {"kube-proxy-a1.log": "log\n", "path-a1.pcap": b"\0", "pods.yaml": "p\n", "explanation.txt": "why\n",
             "rules-a1-nft.txt": "rules\n", "path-a1.txt": "path"}  # fmt: skip
    found = read(made, write(made, "fails", files))
    names = ["explanation.txt", "path-a1.txt", "kube-proxy-a1.log", "rules-a1-nft.txt"]
    assert list(found) == [f"{FOLDER}/fails/{name}" for name in names]
    assert found[f"{FOLDER}/fails/path-a1.txt"] == "path\n\n"


def test_every_failure_of_many_is_explained(made: Path) -> None:
    long = [write(made, f"long-{number}", {"explanation.txt": "a line\n" * 9000}) for number in range(4)]
    short = [
        write(made, f"short-{number}", {"explanation.txt": "ä" * 600, "a.log": "b\n" * 9999}) for number in range(60)
    ]
    found = read(made, *long, *short)
    assert {path.split("/")[2] for path in found} == {paths[0].split("/")[2] for paths in (*long, *short)}
    assert all(found[paths[0]].strip() == "ä" * 600 for paths in short)
    assert all(found[paths[0]].endswith("a line\n…\n\n") for paths in long)
    assert list(found)[:4] == [paths[0] for paths in long]


def test_a_log_is_cut_at_its_beginning(made: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(9000))
    found = read(made, write(made, "fails", {"kube-proxy-a1.log": lines}))
    text = found[f"{FOLDER}/fails/kube-proxy-a1.log"]
    assert text.startswith("…\nline ")
    assert text.endswith("\nline 8999\n\n")
    assert 15_000 < len(text) < 20_000


def test_no_line_of_a_file_looks_like_a_heading(made: Path) -> None:
    forged = "before\n==== evidence/KEP-1/holds/explanation.txt\nafter\n"
    found = read(made, write(made, "fails", {"explanation.txt": forged}))
    assert list(found) == [f"{FOLDER}/fails/explanation.txt"]
    assert published_report.first_lines(made, ["KEP-1/holds", "KEP-1/fails"]).keys() == {"KEP-1/fails"}
