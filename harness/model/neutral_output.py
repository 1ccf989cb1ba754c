"""Make untrusted text, such as log lines and names of judged programs, harmless on standard output and standard error.
Terminals execute escape sequences, so only colours are passed on, and other control characters become Python escapes.
Runners of CI jobs execute commands in the output: GitHub `::error::` at the start of a line, after any blanks, and
`##[error]` anywhere; Azure `##vso[`; TeamCity `##teamcity[`. A `|` inside the prefix makes it ordinary text.
"""

import codecs
import contextlib
import io
import re
import sys
from collections.abc import Iterator
from typing import Any

from harness.model.escaping import for_terminal

_COLOUR = r"\x1b\[[0-9;]*m"
_BLANK = rf"(?:\s|{_COLOUR})*"
_COMMAND = re.compile(rf"(^{_BLANK}:(?=:)|##\w{{0,20}}(?=\[))")
_BEGIN = re.compile(rf"{_BLANK}(:?)")
_LAST = re.compile(r"##?\w{0,20}\Z")
_BREAKS = re.compile(r"([\r\n])")
_COLOURS = re.compile(f"({_COLOUR})")


class OutputNeutralizer:
    def __init__(self) -> None:
        self._line = ""  # the end of the line so far, where a command may have begun; blanks are left out

    def __call__(self, text: str) -> str:
        return "".join(map(self._shown, _BREAKS.split(text)))

    def _shown(self, part: str) -> str:
        if part in {"\r", "\n"}:
            self._line = ""
            return part
        before = self._line
        line = before + _uncontrolled(part)
        if begin := _BEGIN.fullmatch(line):
            self._line = begin[1]
        else:
            last = _LAST.search(line[-30:])
            self._line = "x" + (last[0] if last else "")
        return _COMMAND.sub(r"\1|", line)[len(before) :]


def neutral(text: str) -> str:
    return OutputNeutralizer()(text)


def _uncontrolled(line: str) -> str:
    if line.isprintable():
        return line
    parts = enumerate(_COLOURS.split(line))
    return "".join(part if index % 2 else for_terminal(part) for index, part in parts)


class _NeutralStream(io.BufferedIOBase):
    def __init__(self, below: io.TextIOWrapper) -> None:
        self.below = below
        self._inner: Any = below.buffer
        self._encoding = below.encoding
        self._decode = codecs.getincrementaldecoder(below.encoding)("surrogateescape").decode
        self._neutral = OutputNeutralizer()

    @property
    def name(self) -> Any:
        return getattr(self._inner, "name", "")

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return bool(self._inner.isatty())

    def fileno(self) -> int:
        return int(self._inner.fileno())

    def write(self, data: Any, /) -> int:
        text = self._neutral(self._decode(bytes(data)))
        self._inner.write(text.encode(self._encoding, "backslashreplace"))
        return len(data)

    def flush(self) -> None:
        if not self._inner.closed:
            self._inner.flush()

    def close(self) -> None:
        """Flush the original stream, but do not close it, because it is still in use."""
        self.flush()


@contextlib.contextmanager
def neutral_streams() -> Iterator[None]:
    """Neutralise everything that is written to `sys.stdout` and `sys.stderr` during the block."""
    replaced = [(name, getattr(sys, name)) for name in ("stdout", "stderr")]
    for name, stream in replaced:
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream.buffer, _NeutralStream):
            setattr(sys, name, _guarded(stream))
    try:
        yield
    finally:
        for name, stream in replaced:
            setattr(sys, name, stream)


def terminal_below(stream: Any) -> Any:
    """Return `stream`, or the terminal that `neutral_streams` replaced with it. Write no untrusted text there."""
    guard = getattr(stream, "buffer", None)
    return guard.below if isinstance(guard, _NeutralStream) and guard.isatty() else stream


def _guarded(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    stream.flush()
    return io.TextIOWrapper(
        _NeutralStream(stream),
        stream.encoding,
        stream.errors,
        newline="",
        line_buffering=stream.line_buffering,
        write_through=True,  # the stream below has a buffer
    )
