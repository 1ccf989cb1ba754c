"""Ensure that imports find the packages of this distribution, regardless of the current folder's content.

`python -m pytest` puts the current folder first on `sys.path`. A folder `harness/` or `conformance/` of another project
would hide our packages of the same name. `find_first` installs a finder that has priority and finds our packages.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

PACKAGES = frozenset({"conformance", "emulator", "explain", "harness", "mutants", "reference", "tools"})
_PLACE = str(Path(__file__).resolve().parents[1])


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [_PLACE], target) if path is None and name in PACKAGES else None


def find_first() -> None:
    """Install the finder once. Raises `ImportError` if a package of another project already uses one of the names."""
    known = {name: module for name in PACKAGES if (module := sys.modules.get(name)) is not None}
    taken = [name for name, module in known.items() if not _is_ours(module)]
    if taken:
        name = min(taken)
        place = getattr(known[name], "__file__", None) or "a folder without __init__.py"
        raise ImportError(
            f"package {name!r} of trafficdist cannot be imported: {place} is already imported with that name"
        )
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def _is_ours(module: ModuleType) -> bool:
    return any(Path(place).resolve().parent == Path(_PLACE) for place in getattr(module, "__path__", ()))
