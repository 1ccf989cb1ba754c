"""Finds what other packages register for the harness, which imports none of them: commands, mutants, explanations.

The wheel leaves out some packages that register entry points, such as `tools`. Their entry points are skipped.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points


def installed(group: str, name: str | None = None) -> Iterator[EntryPoint]:
    """Yield the entry points of a group, or those of one name, whose top-level package is importable."""
    for each in entry_points(group=group):
        if name in (None, each.name) and importlib.util.find_spec(each.module.partition(".")[0]) is not None:
            yield each
