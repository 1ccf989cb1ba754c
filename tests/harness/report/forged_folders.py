"""Changed folders of a run. Each has what `verify` says about it.

A file that can be derived from the history is refused even if its new digest is in the report.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.judging.history_file import packed
from tests.harness.report.forged_run import ForgedRun

EXPLANATION = "evidence/KEP-2/leaks/explanation.txt"
PAGE, JUNIT = "report.html", "junit.xml"


def exchanged(path: str, *, sealed: bool = False) -> Callable[[ForgedRun], None]:
    def change(f: ForgedRun) -> None:
        (f.folder / path).write_text("All is well.\n")
        if sealed:
            f.seal(path)

    return change


def replaced(old: str, new: str, path: str) -> Callable[[ForgedRun], None]:
    """Change a text of a page, and seal the page again."""

    def change(f: ForgedRun) -> None:
        text = (f.folder / path).read_text()
        assert old in text
        (f.folder / path).write_text(text.replace(old, new))
        f.seal(path)

    return change


def removed(path: str) -> Callable[[ForgedRun], None]:
    return lambda f: (f.folder / path).unlink()


def linked(path: str, target: str) -> Callable[[ForgedRun], None]:
    """Replace a file or folder by a link to its content in another place, or by a link to nothing."""

    def change(f: ForgedRun) -> None:
        place = f.folder / path
        kept = f.folder.parent / "kept"
        if place.exists():
            shutil.move(place, kept)
        place.symlink_to(target.format(kept=kept))

    return change


def pipe(path: str) -> Callable[[ForgedRun], None]:
    def change(f: ForgedRun) -> None:
        (f.folder / path).unlink()
        os.mkfifo(f.folder / path)

    return change


def of_allure(change: Callable[[Path], Any]) -> Callable[[ForgedRun], None]:
    return lambda f: change(min((f.folder / "allure-results").glob("*-result.json")))


def second_history(f: ForgedRun) -> None:
    (f.folder / "run.jsonl.xz").write_bytes(packed(b"".join(f.lines)))


def not_listed(path: str) -> Callable[[ForgedRun], None]:
    return lambda f: f.report.update(artifacts=[each for each in f.report["artifacts"] if each["path"] != path])


def of_an_older_release(f: ForgedRun) -> None:
    """Claim the rule of older releases, which listed fewer files."""
    del f.report["seals"]
    not_listed(PAGE)(f)


CHANGED = "artifacts: {} was changed after the run"
MISSING = "artifacts: {} is missing"
FOREIGN = "artifacts: {} is not a file of the run: remove it"
LINK = "artifacts: {} is a symbolic link: a run leaves none"
OLDER = (
    "artifacts: it does not list all files of its folder, because an older release wrote it: "
    "verify it with that release"
)
DIFFERS = "derived: {} differs from the one that follows from the history"

FOLDERS: dict[str, tuple[Callable[[ForgedRun], Any], str]] = {
    "another page": (exchanged(PAGE), CHANGED.format(PAGE)),
    "another page, with its digest": (exchanged(PAGE, sealed=True), DIFFERS.format(PAGE)),
    "a milder page, with its digest": (replaced("not met", "met", PAGE), DIFFERS.format(PAGE)),
    "another JUnit": (exchanged(JUNIT), CHANGED.format(JUNIT)),
    "another JUnit, with its digest": (exchanged(JUNIT, sealed=True), DIFFERS.format(JUNIT)),
    "a milder JUnit, with its digest": (replaced("<failure", "<skipped", JUNIT), DIFFERS.format(JUNIT)),
    "other evidence": (exchanged(EXPLANATION), CHANGED.format(EXPLANATION)),
    "other evidence, with its digest": (exchanged(EXPLANATION, sealed=True), DIFFERS.format(PAGE)),
    "another result of Allure": (of_allure(lambda path: path.write_text("{}")), CHANGED.format("allure-results/")),
    "a result of Allure is gone": (of_allure(Path.unlink), CHANGED.format("allure-results/")),
    "a result of Allure more": (exchanged("allure-results/mine-result.json"), CHANGED.format("allure-results/")),
    "another configuration of Allure": (exchanged("allurerc.json"), CHANGED.format("allurerc.json")),
    "no page": (removed(PAGE), MISSING.format(PAGE)),
    "no evidence": (removed(EXPLANATION), MISSING.format(EXPLANATION)),
    "a file more": (exchanged("certificate.pdf"), FOREIGN.format("certificate.pdf")),
    "a hidden file more": (exchanged("evidence/.hidden"), FOREIGN.format("evidence/.hidden")),
    "evidence more": (exchanged("evidence/KEP-2/leaks/praise.txt"), FOREIGN.format("evidence/KEP-2/leaks/praise.txt")),
    "a second history": (second_history, FOREIGN.format("run.jsonl.xz")),
    "a page that is not listed": (not_listed(PAGE), FOREIGN.format(PAGE)),
    "a link to the same page": (linked(PAGE, "{kept}"), LINK.format(PAGE)),
    "a link to the same evidence": (linked("evidence", "{kept}"), LINK.format("evidence")),
    "a link in place of the results of Allure": (linked("allure-results", "{kept}"), LINK.format("allure-results")),
    "a link more": (linked("evidence/passwords", "/etc/passwd"), LINK.format("evidence/passwords")),
    "a link to nothing": (linked("evidence/nothing", "nowhere"), LINK.format("evidence/nothing")),
    "a link in place of the history": (linked("run.jsonl", "{kept}"), LINK.format("run.jsonl")),
    "a pipe in place of JUnit": (pipe(JUNIT), MISSING.format(JUNIT)),
    "the rule of older releases": (of_an_older_release, OLDER),
}
