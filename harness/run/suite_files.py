"""Find a suite's folder, ids and features without importing its files, which would take seconds."""

import contextlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from harness.errors import UsageError
from harness.model.files import is_there

SUITE = "conformance"  # the published suite, which is the default suite

_ID = re.compile(r'\brequirement\(\s*"([^"]+/[^"]+)"')
_FEATURE = re.compile(r'\bFeature\(\s*"([^"]+)"')


def place_of(suite: str = SUITE) -> Path:
    """Return the folder of a suite, which is given as a package or a path. Raises `UsageError`."""
    if suite != SUITE and is_there(suite):  # "conformance" is always the package, and ./conformance a folder
        return Path(suite).resolve()
    if all(part.isidentifier() for part in suite.split(".")):
        with contextlib.suppress(ModuleNotFoundError, ValueError):
            found = importlib.util.find_spec(suite)
            if found is not None and found.submodule_search_locations:
                return Path(next(iter(found.submodule_search_locations))).resolve()
    raise UsageError(f"there is no suite {suite[:100]!r}: it is neither an installed package nor a folder")


def ids(suite: str = SUITE) -> list[str]:
    return sorted({name for text in _texts(suite) for name in _ID.findall(text)})


def features(suite: str = SUITE) -> list[str]:
    return sorted({name for text in _texts(suite) for name in _FEATURE.findall(text)})


def _texts(suite: str) -> Iterator[str]:
    place = place_of(suite)
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        yield path.read_text(encoding="utf-8")
