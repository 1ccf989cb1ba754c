"""Shows the progress of fetching a component: a bar on a terminal, or lines elsewhere."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

_EVERY = 15.0  # seconds between progress lines without a terminal


class Reporter:
    def say(self, text: str) -> None:
        """Print a line."""

    def begin(self, what: str, total: int, *, unit: str) -> None:
        """Begin a task. `unit` is "bytes" or the name of the counted items. `total` is 0 if it is unknown."""

    def advance(self, by: int, detail: str = "") -> None:
        """Increase the amount of completed work."""

    def end(self) -> None:
        """End the task."""


class TerminalProgress(Reporter):
    """Context manager that shows a progress bar on a terminal, or prints a line every 15 seconds elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._printed_at = 0.0  # time of the last line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, what: str, total: int, *, unit: str) -> None:
        self.end()
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
            disable=not self._console.is_terminal,
        )
        self._bar.add_task(what, total=total or None, detail="", unit=unit)
        self._bar.start()
        self._say_progress(self._bar)

    def _say_progress(self, bar: Progress) -> None:
        if bar.disable and time.monotonic() - self._printed_at > _EVERY:
            self._printed_at, task = time.monotonic(), bar.tasks[0]
            size, unit = (1e6, "MB") if task.fields["unit"] == "bytes" else (1, task.fields["unit"])
            of = f": {task.completed / size:.0f} of {task.total / size:.0f} {unit}" if task.total else ""
            self.say(f"{task.description}{of}")

    def advance(self, by: int, detail: str = "") -> None:
        if self._bar is not None:
            self._bar.update(self._bar.tasks[0].id, advance=by, detail=detail)
            self._say_progress(self._bar)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar, self._printed_at = None, 0.0
