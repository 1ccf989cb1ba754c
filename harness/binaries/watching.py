"""What somebody sees while a component is on its way: one protocol, so that getting it knows no terminal."""

from __future__ import annotations

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


class Terminal:
    """Writes to a terminal, with a bar; where there is no terminal, lines only. To be used with `with`."""

    def __init__(self, console: Console) -> None:
        self._console = console
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
            size = f"{total / 1e6:.1f} MB" if unit == "bytes" else f"{total} {unit}"
            self.say(f"{what}: {size}" if total else what)
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
        if self._bar is not None:
            self._bar.update(self._task, advance=by, detail=detail)

    def end(self) -> None:
        """See `Watcher`."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
