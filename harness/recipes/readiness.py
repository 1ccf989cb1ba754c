"""Checks whether a program is ready, and whether it has processed all changes.

Each check returns the missing condition as a text, or "". Checks are values; only `missing` has effects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.netns import http
from harness.netns.namespace import Namespace
from harness.recipes.values import HttpCode, Key, Line, Pattern, Port, Text, UrlPath

PATTERN_SECONDS = 0.5
"""The time limit for one search of a log: a regular expression may backtrack without end."""


@dataclass(frozen=True, slots=True)
class ProgramPlace:
    """The netns of a program, and its log since its start."""

    namespace: Namespace
    log: Path
    log_begin: int = 0  # bytes of earlier programs on the same node

    def text(self) -> str:
        """Return its log, without the output of earlier programs."""
        with self.log.open("rb") as file:
            file.seek(self.log_begin)
            return file.read().decode(errors="replace")


@dataclass(frozen=True, slots=True)
class HttpCheck:
    """An HTTP server on loopback of the node answers with this status code, and a body that contains a text."""

    port: Port
    path: UrlPath = "/healthz"
    code: HttpCode = 200
    contains: str = ""

    def missing(self, place: ProgramPlace) -> str:
        """Return the missing condition; "" if there is none."""
        what = f"http port {self.port} {self.path}"
        try:
            answer = http.get(place.namespace, "127.0.0.1", self.port, self.path)
        except OSError as error:
            return f"{what}: {error.strerror or error}"
        if answer.code != self.code:
            return f"{what} answers {answer.code}, not {self.code}"
        return "" if self.contains in answer.text else f"{what} does not contain {self.contains!r}"


@dataclass(frozen=True, slots=True)
class MetricsCheck:
    """Metrics on loopback of the node: `zero` are 0; in each pair of `not_after`, the first is not above the second."""

    port: Port
    path: UrlPath = "/metrics"
    zero: tuple[Line, ...] = ()
    not_after: tuple[tuple[Key, Text], ...] = ()

    def missing(self, place: ProgramPlace) -> str:
        """Return the missing condition; "" if there is none."""
        what = f"metrics port {self.port} {self.path}"
        try:
            answer = http.get(place.namespace, "127.0.0.1", self.port, self.path)
        except OSError as error:
            return f"{what}: {error.strerror or error}"
        if answer.code != 200:
            return f"{what} answers {answer.code}"
        try:
            return self._unmet(answer.text, what)
        except ValueError as error:
            return f"{what}: {error}"

    def _unmet(self, text: str, what: str) -> str:
        for name in self.zero:
            if any(value != 0 for value in _values(text, name).values()):
                return f"{what}: {name} is not 0"
        for earlier, later in self.not_after:
            known = _values(text, later)
            if any(value > known.get(labels, float("inf")) for labels, value in _values(text, earlier).items()):
                return f"{what}: {earlier} is above {later}"
        return ""


@dataclass(frozen=True, slots=True)
class LogCheck:
    """The log has a line that a regular expression finds."""

    pattern: Pattern

    def missing(self, place: ProgramPlace) -> str:
        """Return the missing condition; "" if there is none."""
        import regex  # noqa: PLC0415  only for recipes that read a log; unlike `re` it has a timeout

        try:
            found = regex.search(self.pattern, place.text(), regex.MULTILINE, timeout=PATTERN_SECONDS)
        except TimeoutError:
            return f"{self.pattern!r} was still trying to match the log after {PATTERN_SECONDS:g} s: it backtracks"
        return "" if found else f"no line of the log matches {self.pattern!r}"


Check = HttpCheck | MetricsCheck | LogCheck


def missing(checks: tuple[Check, ...], place: ProgramPlace) -> str:
    """Return the missing condition of the first check that fails; "" if all hold."""
    return next((text for check in checks if (text := check.missing(place))), "")


def _values(text: str, name: str) -> dict[str, float]:
    """Return the values of a metric, by the text of its labels."""
    found = re.findall(rf"^{re.escape(name)}(\{{[^}}]*\}})? (\S+)", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found}
