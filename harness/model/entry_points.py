"""Find entry points without importing their packages. Skip entry points of packages that the wheel omits."""

import importlib.util
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path


def installed(group: str, name: str | None = None) -> Iterator[EntryPoint]:
    """Yield a group's entry points (with this name, if given) whose modules are installed. Import no module."""
    for each in entry_points(group=group):
        if name in (None, each.name) and _is_installed(each.module):
            yield each


def _is_installed(module: str) -> bool:
    top, *parts = module.split(".")
    spec = importlib.util.find_spec(top)
    files = [Path(folder, *parts) for folder in (spec.submodule_search_locations or ())] if spec is not None else []
    return not parts or any(each.with_suffix(".py").exists() or each.is_dir() for each in files)
