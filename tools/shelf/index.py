"""Write the index of the shelf: index.html, the section in README.md, and index.json.

A cached entry is valid while the digest of the report's files is the same, even if requirements change.
"""

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.model.files import MEGABYTE, content, sha256_of_folder
from harness.model.requirements import Requirement
from harness.run.folder import write_whole
from tools.shelf import deviations
from tools.shelf.entry import LASTING_REFUSALS, ShelfEntry, entry_of
from tools.shelf.pages import BEGIN, END, as_html, replaced, section
from tools.shelf.report_folder import README, REPORT

PAGE, CACHE = "index.html", "index.json"
_MOST, _MOST_CACHED = 16 * MEGABYTE, 64 * MEGABYTE


def write(
    shelf: Path, catalogue: Callable[[], Sequence[Requirement]], today: datetime.date, *, again: bool = False
) -> list[ShelfEntry]:
    """Write the index, and return its entries. Raises `UsageError` for a damaged report, or if writing fails."""
    found, documented = entries(shelf, catalogue, again=again), deviations.read(shelf)
    page = shelf / README
    before = content(page, what="page", most=_MOST).decode(errors="replace") if page.exists() else f"{BEGIN}\n{END}\n"
    texts = {
        README: replaced(before, section(found, today, documented)),
        PAGE: as_html(found, today, documented),
        CACHE: as_json(found),
    }
    try:
        for name, text in texts.items():
            write_whole(shelf / name, text)
    except OSError as error:
        raise UsageError(f"cannot write the index of {shelf}: {error.strerror or error}") from error
    return found


def entries(shelf: Path, catalogue: Callable[[], Sequence[Requirement]], *, again: bool = False) -> list[ShelfEntry]:
    """Return the entry of each report, ordered by folder. `again` ignores the cache. Raises `UsageError`."""
    cached = {} if again else _cached(shelf / CACHE)
    found = []
    for folder in _folders(shelf):
        place, digest = str(folder.relative_to(shelf)), digest_of(folder)
        known = cached.get(place, {})
        valid = known.get("digest") == digest and known.get("refused") in ("", *LASTING_REFUSALS)
        found.append(
            (_entry(known) if valid else None)
            or entry_of(folder, place, digest, catalogue, refused=known["refused"] if valid else None)
        )
    return found


def _folders(shelf: Path) -> list[Path]:
    every = (path.relative_to(shelf) for path in shelf.rglob(REPORT))
    found = sorted(shelf / path.parent for path in every if not any(part.startswith(".") for part in path.parts))
    if not found:
        raise UsageError(f"{shelf}: no folder in it contains a {REPORT}")
    return found


def digest_of(folder: Path) -> str:
    return f"sha256:{sha256_of_folder(folder)}"


def as_json(found: Iterable[ShelfEntry]) -> str:
    lines = ",\n".join(json.dumps(asdict(each), ensure_ascii=True) for each in found)
    return f'{{"reports": [\n{lines}\n]}}\n'


def _cached(path: Path) -> dict[str, Mapping[str, Any]]:
    try:
        found = json.loads(content(path, what="index", most=_MOST_CACHED))["reports"] if path.exists() else []
        return {str(each["place"]): each for each in found}
    except (KeyError, TypeError, ValueError):
        return {}


def _entry(known: Mapping[str, Any]) -> ShelfEntry | None:
    """Return a cached entry, or None if another trafficdist version wrote it in a different format."""
    try:
        return ShelfEntry.from_json(known)
    except (KeyError, TypeError):
        return None
