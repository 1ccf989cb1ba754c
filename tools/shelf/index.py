"""Write the index of the shelf: index.html, the section in README.md, and the cache index.json."""

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.model.files import MEGABYTE, content
from harness.model.requirements import Requirement
from harness.run.folder import write_whole
from tools.shelf import memory, stated
from tools.shelf.entry import Entry
from tools.shelf.markdown import BEGIN, END, replaced, section
from tools.shelf.page import as_html
from tools.shelf.place import README

PAGE = "index.html"
_MOST = 16 * MEGABYTE


def write(
    shelf: Path, catalogue: Callable[[], Sequence[Requirement]], today: datetime.date, *, again: bool = False
) -> list[Entry]:
    """Write the index, and return its entries. Raises `UsageError` before anything is written."""
    found, said = memory.entries(shelf, catalogue, again=again), stated.read(shelf)
    page = shelf / README
    before = content(page, what="page", most=_MOST).decode(errors="replace") if page.exists() else f"{BEGIN}\n{END}\n"
    texts = {
        README: replaced(before, section(found, today, said)),
        PAGE: as_html(found, today, said),
        memory.FILE: memory.as_json(found),
    }
    try:
        for name, text in texts.items():
            write_whole(shelf / name, text)
    except OSError as error:
        raise UsageError(f"cannot write the index of {shelf}: {error.strerror or error}") from error
    return found
