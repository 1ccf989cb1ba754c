"""Tests that an unusable output folder is reported before a run, and that a run deletes only files of other runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import DistrustError, UsageError
from harness.report.environment import without_secrets
from harness.run.folder import DEFAULT_PARENT, OutputFolder, write_whole


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DistrustError, match=r"cannot write .*/file/out: Not a directory.*--output-dir"):
        OutputFolder(tmp_path / "file" / "out").prepare()


def test_foreign_report_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "mine").write_text("precious")
    with pytest.raises(DistrustError, match="has evidence, which is not from an earlier run"):
        OutputFolder(tmp_path).prepare()
    assert (tmp_path / "evidence" / "mine").read_text() == "precious"


def test_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "out")
    folder.prepare()
    folder.write("evidence/KEP-1/a/rules.nft", "old")
    folder.write("report.yaml", "old")
    (folder.path / "notes.txt").write_text("mine")
    folder.finish()
    OutputFolder(tmp_path / "out").prepare()
    assert sorted(path.name for path in folder.path.iterdir()) == [".parts", ".trafficdist", "notes.txt"]


def test_latest_points_to_the_newest(tmp_path: Path) -> None:
    for name in ("one", "two"):
        OutputFolder(tmp_path / DEFAULT_PARENT / name).prepare()
    assert (tmp_path / DEFAULT_PARENT / "latest").resolve().name == "two"


def test_an_abandoned_folder_leaves_nothing(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / DEFAULT_PARENT / "one")
    folder.prepare()
    folder.abandon()
    assert list(tmp_path.iterdir()) == []


def test_abandoned_folder_leaves_the_folders_that_were_there(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    folder = OutputFolder(tmp_path / "mine" / "new" / "out")
    folder.prepare()
    folder.abandon()
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]


def test_after_an_abandoned_run_latest_points_to_the_one_before(tmp_path: Path) -> None:
    OutputFolder(tmp_path / DEFAULT_PARENT / "one").prepare()
    folder = OutputFolder(tmp_path / DEFAULT_PARENT / "two")
    folder.prepare()
    folder.abandon()
    assert sorted(path.name for path in (tmp_path / DEFAULT_PARENT).iterdir()) == ["latest", "one"]
    assert (tmp_path / DEFAULT_PARENT / "latest").resolve().name == "one"


def test_file_is_written_atomically(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "before")
    with pytest.raises(TypeError):
        write_whole(tmp_path / "a", 7)  # type: ignore[arg-type]
    assert (tmp_path / "a").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_secrets_are_not_written() -> None:
    given = ["run", "--api-token", "abc", "--password=def", "--seed", "7"]
    assert without_secrets(given) == ["run", "--api-token", "***", "--password=***", "--seed", "7"]


def test_second_run_in_a_folder_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    first, second = OutputFolder(tmp_path / "out"), OutputFolder(tmp_path / "out")
    first.prepare()
    first.leave_part("plan", {"of": "the first"})
    with pytest.raises(UsageError, match=r"another run is writing to .*/out; .* --output-dir"):
        second.prepare()
    second.abandon()
    assert first.parts_named("plan") == [{"of": "the first"}]
    first.finish()
    second.prepare()
    assert second.parts_named("plan") == []


def test_late_part_does_not_recreate_the_folder(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "out")
    folder.prepare()
    folder.finish()
    with pytest.raises(DistrustError):
        OutputFolder(tmp_path / "out").leave_part("ended-proxy", {})
    assert not folder.parts.exists()
