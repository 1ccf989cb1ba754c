"""Cache the entries of reports in `index.json`, so that a change does not require verifying two hundred reports again.

A cached entry is valid while the digest of the files is the same. A report stays verified when requirements change, or
when a later release displays more data of the report. A rejected report is verified again each time.
"""

import json
import multiprocessing
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import UsageError
from harness.model.files import MEGABYTE, content, sha256_of_folder
from harness.model.requirements import Requirement
from harness.run.workers import this_machine
from tools.shelf.entry import NEVER_VERIFIED, Entry, entry_of
from tools.shelf.place import REPORT

FILE = "index.json"
_MOST = 64 * MEGABYTE


def entries(shelf: Path, catalogue: Callable[[], Sequence[Requirement]], *, again: bool = False) -> list[Entry]:
    """Return the entry of each report on the shelf, ordered by place. Raises `UsageError` for a damaged report.

    `again` ignores the cache and verifies all reports.
    """
    known = {} if again else _read(shelf / FILE)
    found: dict[str, Entry] = {}
    new: list[_New] = []
    for folder in folders(shelf):
        where, digest = str(folder.relative_to(shelf)), digest_of(folder)
        said = known.get(where, {})
        holds = said.get("digest") == digest and said.get("refused") in ("", *NEVER_VERIFIED)
        if whole := _entry(said) if holds else None:
            found[where] = whole
        else:
            new.append(_New(folder, where, digest, said["refused"] if holds else None))
    found |= {each.place: each for each in _looked_at(new, catalogue)}
    return [found[where] for where in sorted(found, key=Path)]


class _New(NamedTuple):
    """A report that is not in the cache, or for which the cache has only the verification result."""

    folder: Path
    place: str
    digest: str
    refused: str | None

    def entry(self, catalogue: Callable[[], Sequence[Requirement]]) -> Entry:
        return entry_of(self.folder, self.place, self.digest, catalogue, refused=self.refused)


def _looked_at(new: Sequence[_New], catalogue: Callable[[], Sequence[Requirement]]) -> list[Entry]:
    """Return the entries of reports. They are computed in parallel by one process per CPU."""
    processes = min(len(new), this_machine().cpus)
    if processes < 2:
        return [each.entry(catalogue) for each in new]
    # Forked processes share this process's catalogue, or the function that reads it.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(processes, context, initializer=_catalogues.append, initargs=(catalogue,)) as pool:
        return list(pool.map(_entry_of_new, new))


_catalogues: list[Callable[[], Sequence[Requirement]]] = []
"""The catalogue of a process in the pool. The list has one item."""


def _entry_of_new(new: _New) -> Entry:
    return new.entry(_catalogues[-1])


def folders(shelf: Path) -> list[Path]:
    """Return all folders that contain a report. Raises `UsageError` if there is no report."""
    every = (path.relative_to(shelf) for path in shelf.rglob(REPORT))
    found = sorted(shelf / path.parent for path in every if not any(part.startswith(".") for part in path.parts))
    if not found:
        raise UsageError(f"{shelf}: no folder in it contains a {REPORT}")
    return found


def digest_of(folder: Path) -> str:
    """Return a digest of the names and contents of all files in a folder."""
    return f"sha256:{sha256_of_folder(folder)}"


def as_json(found: Iterable[Entry]) -> str:
    """Return the cache as text, with one entry per line."""
    lines = ",\n".join(json.dumps(each.as_json(), ensure_ascii=True) for each in found)
    return f'{{"reports": [\n{lines}\n]}}\n'


def _read(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return the cached values by place. Empty if the file has another format."""
    try:
        remembered = json.loads(content(path, what="index", most=_MOST))["reports"] if path.exists() else []
        return {str(each["place"]): each for each in remembered}
    except (KeyError, TypeError, ValueError):
        return {}


def _entry(said: Mapping[str, Any]) -> Entry | None:
    """Return a cached entry, or None if another release wrote the entry in a different format."""
    try:
        return Entry.from_json(said)
    except (KeyError, TypeError):
        return None
