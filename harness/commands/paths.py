"""Arguments of commands that are paths: what cannot be one is wrong use, whichever command it was given to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.model.files import fault_of_path


class _Path(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if fault := fault_of_path(str(value)):
            self.fail(f"{str(value)[:100]!r} is no path: {fault}", param, ctx)
        return super().convert(value, param, ctx)


PLACE = _Path()
"""A path, as text; whether anything is there, and of which kind, is said by who reads it."""

FILE = _Path(path_type=Path)
FOLDER = _Path(path_type=Path, file_okay=False, resolve_path=True)
