"""Write progress as permanent lines. On a terminal, the current state is shown below these lines."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from harness.model.escaping import for_terminal
from harness.model.neutral_output import neutral
from harness.report.outcomes import Style
from harness.report.summary import Line

SILENCE = 3.0  # longest time without output, in seconds

_LOOK = 0.5
_MOST_SHOWN = 8
_BAR = 40  # the maximum number of columns of the progress bar
_RICH: Mapping[Style, str] = {"faint": "dim"}  # rich's name of a style, where it differs
_PYTEST: Mapping[Style, str] = {"faint": "light"}  # likewise pytest's name


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The state of a run: the numbers of finished and of all requirements, the seconds left, and the running tests."""

    phase: str
    done: int = 0
    total: int = 0
    left: float | None = None
    running: Sequence[tuple[str, float]] = ()

    @property
    def summed_up(self) -> str:
        if not self.total:
            return self.phase
        left = "" if self.left is None else f", {spoken(self.left)} left"
        return f"{self.done} of {self.total}{left}"

    @property
    def text(self) -> str:
        shown = [f"{name} ({seconds:.0f} s)" for name, seconds in self.running[:_MOST_SHOWN]]
        return self.summed_up + (f"; still running: {', '.join(shown)}" if shown else "")


def spoken(seconds: float) -> str:
    return f"about {seconds:.0f} s" if seconds < 100 else f"about {seconds / 60:.0f} min"


def _uncaptured(file: Any) -> Any:
    """Open the same file a second time, because pytest captures output to the original descriptor during a test."""
    try:
        return open(os.dup(file.fileno()), "w", encoding=file.encoding, errors="replace")  # noqa: PTH123
    except (OSError, ValueError, AttributeError):
        return file


class _NeutralFile(FileProxy):
    """A file for pytest's output while the state is shown. Control characters are escaped."""

    def write(self, text: str) -> int:
        return super().write(neutral(text))


class _UnwrappedLine:
    """A line for rich that is not wrapped. Rich's `soft_wrap` would also affect the state below the line."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(
            neutral(for_terminal(self._line.text)), console.get_style(_RICH.get(self._line.style, self._line.style))
        )
        yield Segment.line()


class Heartbeat:
    """Calls a function after each period of `SILENCE` seconds without output."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._last = time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="trafficdist-heartbeat", daemon=True)
        self._thread.start()

    def reset(self) -> None:
        self._last = time.monotonic()

    def close(self) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(_LOOK):
            if time.monotonic() - self._last >= SILENCE:
                self._beat()
                self.reset()


@contextlib.contextmanager
def with_heartbeat(say: Callable[[str], None], what: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints like `say`. After some time without output, print `what` and the elapsed time."""
    began = time.monotonic()
    heartbeat = Heartbeat(lambda: say(f"… {what}, {time.monotonic() - began:.0f} s"))

    def said(text: str) -> None:
        heartbeat.reset()
        say(text)

    try:
        yield said
    finally:
        heartbeat.close()


class Display:
    """Writes lines: with rich while a state is shown below the lines, and otherwise with pytest's reporter."""

    def __init__(self, terminal: Any, status: Callable[[], RunStatus]) -> None:
        self._terminal = terminal
        self._status = status
        self._file = terminal._tw._file
        self._own = self._file
        self._live: Live | None = None
        self._heartbeat: Heartbeat | None = None
        self._lock = threading.Lock()

    @property
    def redraws(self) -> bool:
        """True if lines can be redrawn, which requires a terminal with cursor control."""
        return bool(self._terminal.isatty) and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")

    @property
    def width(self) -> int:
        try:
            return os.get_terminal_size(self._own.fileno()).columns or self._terminal._tw.fullwidth
        except (OSError, ValueError, AttributeError):
            return int(self._terminal._tw.fullwidth)

    def can_write(self, text: str) -> bool:
        try:
            text.encode(getattr(self._file, "encoding", None) or "utf-8")
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def start(self) -> None:
        self._own = _uncaptured(self._file)
        if not self.redraws:
            self._heartbeat = Heartbeat(self._say)
            return
        coloured = self._terminal._tw.hasmarkup
        console = Console(
            file=self._own,
            force_terminal=True,
            color_system="auto" if coloured else None,
            no_color=not coloured,
            width=self.width,
            highlight=False,
        )
        self._live = Live(
            console=console,
            get_renderable=self._shown,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._terminal._tw._file = _NeutralFile(console, self._file)  # pytest and xdist write at any time
        self._live.start()

    def stop(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()
            self._terminal._tw._file = self._file
        if self._heartbeat is not None:
            self._heartbeat.close()
            self._heartbeat = None
        if self._own is not self._file:
            self._own.close()
            self._own = self._file

    def write(self, line: Line) -> None:
        """Write a permanent line without wrapping. The terminal continues a long line on the next row."""
        if self._live is not None:
            self._live.console.print(_UnwrappedLine(line), crop=False)
            return
        with self._lock:
            markup = {_PYTEST.get(line.style, line.style): True} if line.style else {}
            self._terminal.write_line(neutral(for_terminal(line.text)), **markup)
            self._terminal.flush()  # the state is written through a different buffer
        if self._heartbeat is not None:
            self._heartbeat.reset()

    def _say(self) -> None:
        dots = "…" if self.can_write("…") else "..."
        with self._lock:
            self._own.write(f"  {dots} {self._status().text}\n")
            self._own.flush()

    def _shown(self) -> RenderableType:
        status = self._status()
        if self._live is not None:
            self._live.console.width = self.width
        if not status.total:
            return Text(f"  {status.phase}", "dim")
        room = self.width - len(status.summed_up) - 5
        line = Table.grid(padding=(0, 1, 0, 0))
        bar = ProgressBar(status.total, status.done, width=max(3, min(room, _BAR)))
        line.add_row(" ", bar, Text(status.summed_up, no_wrap=True))
        rows = [f"    {name} {seconds:.0f} s" for name, seconds in status.running[:_MOST_SHOWN]]
        more = len(status.running) - len(rows)
        rows += [f"    and {more} more"] if more > 0 else []
        return Group(line, *(Text(row, "dim", overflow="fold") for row in rows))
