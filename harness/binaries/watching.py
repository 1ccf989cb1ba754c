"""Show the progress of fetching a component, as a bar on a terminal or as lines."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

if TYPE_CHECKING:
    from rich.console import Console


_EVERY = 15.0  # seconds between progress lines without a terminal


class Watcher:
    """Receives progress reports, and ignores them."""

    def say(self, text: str) -> None:
        """Print a line."""

    def begin(self, what: str, total: int, *, unit: str, done: int = 0) -> None:
        """Begin a task. `unit` is "bytes" or the name of the counted items. `total` is 0 if it is unknown."""

    def advance(self, by: int, detail: str = "") -> None:
        """Increase the amount of completed work."""

    def end(self) -> None:
        """End the task."""


@dataclass
class _Counted:
    what: str = ""
    total: int = 0
    unit: str = ""
    done: int = 0
    said: float = 0.0

    def __str__(self) -> str:
        if self.unit == "bytes":
            return f"{self.what}: {self.done / 1e6:.1f} of {self.total / 1e6:.1f} MB"
        return f"{self.what}: {self.done} of {self.total} {self.unit}"


class Terminal(Watcher):
    """Shows a progress bar on a terminal, and otherwise a line every 15 seconds. A context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._counted = _Counted()
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, what: str, total: int, *, unit: str, done: int = 0) -> None:
        self.end()
        if not self._console.is_terminal:
            self._counted = _Counted(what, total, unit, done, time.monotonic())
            self.say(str(self._counted) if total else what)
            return
        shown: tuple[ProgressColumn, ...] = (MofNCompleteColumn(), TextColumn(unit))
        if unit == "bytes":
            shown = (DownloadColumn(), TransferSpeedColumn())
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            *shown,
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}", style="dim", markup=False),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task(what, total=total or None, completed=done, detail="")
        self._bar.start()

    def advance(self, by: int, detail: str = "") -> None:
        self._counted.done += by
        if self._bar is not None:
            self._bar.update(self._task, advance=by, detail=detail)
        elif time.monotonic() - self._counted.said > _EVERY:
            self._counted.said = time.monotonic()
            self.say(str(self._counted))

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
