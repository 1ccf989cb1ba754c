"""What somebody sees while a component is on its way: one protocol, so that getting it knows no terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

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


_EVERY = 15.0  # seconds between lines, where there is no terminal


class Watcher(Protocol):
    """Is told how far it is."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def begin(self, what: str, total: int, *, unit: str, done: int = 0) -> None:
        """A piece of work begins; `unit` is "bytes" or what is counted; `total` 0: nobody knows."""

    def advance(self, by: int, detail: str = "") -> None:
        """So much more of it is done."""

    def end(self) -> None:
        """The piece of work is over."""


class Silent:
    """Tells nobody."""

    def say(self, text: str) -> None:
        """See `Watcher`."""

    def begin(self, what: str, total: int, *, unit: str, done: int = 0) -> None:
        """See `Watcher`."""

    def advance(self, by: int, detail: str = "") -> None:
        """See `Watcher`."""

    def end(self) -> None:
        """See `Watcher`."""


@dataclass
class _Counted:
    """How far a piece of work is."""

    what: str = ""
    total: int = 0
    unit: str = ""
    done: int = 0
    said: float = 0.0

    def __str__(self) -> str:
        if self.unit == "bytes":
            return f"{self.what}: {self.done / 1e6:.1f} of {self.total / 1e6:.1f} MB"
        return f"{self.what}: {self.done} of {self.total} {self.unit}"


class Terminal:
    """Writes to a terminal, with a bar; where there is no terminal, a line now and then. To be used with `with`."""

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
        """See `Watcher`."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, what: str, total: int, *, unit: str, done: int = 0) -> None:
        """See `Watcher`."""
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
        """See `Watcher`."""
        self._counted.done += by
        if self._bar is not None:
            self._bar.update(self._task, advance=by, detail=detail)
        elif time.monotonic() - self._counted.said > _EVERY:
            self._counted.said = time.monotonic()
            self.say(str(self._counted))

    def end(self) -> None:
        """See `Watcher`."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
