"""Find the first error in a program's log, or read the end of the log. Later errors mostly follow from the first."""

import os
import re
from pathlib import Path

LOG_LETTERS = 300_000  # maximum length of a log in the evidence
_LETTERS = 500  # maximum length of a quoted line

_KLOG = re.compile(r"^([IWEF])\d{4} \d\d:\d\d:\d\d")
_LEVEL = re.compile(
    r"""(?:\blevel"?\s*[=:]\s*"?|^(?:[\d:.,TZ/+-]+\s+){0,2}\[?)(trace|debug|info|notice|warn(?:ing)?|error|fatal|panic)\b""",
    re.IGNORECASE,
)
_ERRORS = {"error", "fatal", "panic", "E", "F"}
_WORDS = re.compile(
    r"\b([a-z]*error|fatal|panic|fail(ed|ure)?|cannot|can't|could not|unable|denied|refused|invalid|bad|unknown"
    r"|unrecognized|no such|not found|not permitted|not supported|undefined|missing|[a-z]*exception|abort(ed)?)\b",
    re.IGNORECASE,
)
_CNI = re.compile(r'\s*"msg": "')  # field names in the error object of a CNI plugin
_TRACEBACK = "Traceback (most recent call last):"


def fault_in(log: str) -> str:
    """Return one line about a program's fault: the first error in its log, or else the last line."""
    lines = log.splitlines()
    first = next((number for number, line in enumerate(lines) if _is_error(line)), None)
    if first is not None:
        text = lines[first].strip()[:_LETTERS]
        return f"the first error of its log, in line {first + 1} of {len(lines)}: {text}"
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"its log has no error, and ends with: {last[:_LETTERS]}" if last else "its log is empty"


def _is_error(line: str) -> bool:
    if _CNI.match(line):
        return True
    if line.startswith((" ", "\t", _TRACEBACK)):  # part of a traceback or of a usage message
        return False
    level = _KLOG.match(line) or _LEVEL.search(line)
    if level is not None:
        return (level[1] if level.re is _KLOG else level[1].lower()) in _ERRORS
    return _WORDS.search(line) is not None


def end_of(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_LETTERS))
        return file.read().decode(errors="replace")
