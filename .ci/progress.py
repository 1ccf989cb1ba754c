"""Run a command, and show its progress in few lines.

    python .ci/progress.py WHAT COMMAND...

Prints WHAT first. Then a terminal shows the newest line of the command's output. A pipe gets the newest line every few
seconds, with the elapsed time. If the command fails, the script prints all output and exits with the command's exit
code. The script needs only Python, because make runs it before anything is installed.
"""
# ruff: noqa: T201  the purpose of this script is to print

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

EVERY = float(os.environ.get("PROGRESS_EVERY", "4"))  # seconds
NOISE = "Requirement already satisfied"  # pip prints this line for each installed package


def main(what: str, command: list[str]) -> int:
    """Run the command. Returns its exit code."""
    began, shown, said = time.monotonic(), 0.0, [""]
    terminal = sys.stdout.isatty()
    print(f"{what} ...", flush=True)
    try:
        process = subprocess.Popen(  # noqa: S603  what the Makefile says
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
    except OSError as error:
        print(f"error: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    for line in _heard(process, 1.0 if terminal else EVERY / 4):
        said += [line] if line and not line.startswith(NOISE) else []
        passed = time.monotonic() - began
        if terminal or passed - shown >= EVERY * 3 / 4:
            shown = passed
            _show(f"  {passed:3.0f} s  {said[-1].strip() or 'no output yet'}", terminal=terminal)
    if terminal:
        print("\r\033[K", end="", flush=True)
    code = process.wait()
    if code:
        print("\n".join([*said[1:], f"error: exit code {code} of {' '.join(command)}"]), file=sys.stderr)
    return code


def _heard(process: subprocess.Popen[str], patience: float) -> Iterator[str]:
    """Yield each line of output, and an empty line after each interval without output."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line.rstrip())
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=patience)
        except queue.Empty:
            line = ""
        if line is None:
            return
        yield line


def _show(text: str, *, terminal: bool) -> None:
    width = shutil.get_terminal_size().columns - 1
    cut = text if len(text) <= width else f"{text[: width - 3]}..."
    print(f"\r\033[K{cut}" if terminal else cut, end="" if terminal else "\n", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:
        sys.exit(130)
