"""Check whether a program is ready and has processed all changes. A check returns the reason for its failure, or ""."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.netns import http
from harness.netns.namespace import Namespace
from harness.recipes.values import Command, HttpCode, Key, Line, Pattern, Port, Text, UrlPath, compiled

Run = Callable[[Sequence[str]], tuple[int | None, str]]
"""Runs a command in a program's netns. Returns its exit code, or None if it did not end in time, and its output."""


@dataclass(frozen=True, slots=True)
class ProgramContext:
    namespace: Namespace
    log: Path
    log_begin: int = 0  # length of the output of earlier programs on the same node, in bytes
    run: Run | None = None

    def text(self) -> str:
        """Return the program's log, without the output of earlier starts."""
        with self.log.open("rb") as file:
            file.seek(self.log_begin)
            return file.read().decode(errors="replace")


@dataclass(frozen=True, slots=True)
class HttpCheck:
    """Check that an HTTP server on the node's loopback returns this status code, and a body with this string."""

    port: Port
    path: UrlPath = "/healthz"
    code: HttpCode = 200
    contains: str = ""

    def missing(self, place: ProgramContext) -> str:
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
    """Check that metrics in `zero` are 0, and that in each pair of `not_after` the first does not exceed the second."""

    port: Port
    path: UrlPath = "/metrics"
    zero: tuple[Line, ...] = ()
    not_after: tuple[tuple[Key, Text], ...] = ()

    def missing(self, place: ProgramContext) -> str:
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
    pattern: Pattern

    def missing(self, place: ProgramContext) -> str:
        return "" if compiled(self.pattern).search(place.text()) else f"no line of the log matches {self.pattern!r}"


@dataclass(frozen=True, slots=True)
class CommandCheck:
    """Check that a command exits with 0. It runs in the program's sandbox and environment."""

    command: Command

    def missing(self, place: ProgramContext) -> str:
        assert place.run is not None
        code, said = place.run(self.command)
        if code == 0:
            return ""
        how = "did not end in time" if code is None else f"exited with {code}"
        return f"command {self.command[0]} {how}: {said.splitlines()[-1] if said else 'it wrote nothing'}"


Check = HttpCheck | MetricsCheck | LogCheck | CommandCheck


def missing(checks: tuple[Check, ...], place: ProgramContext) -> str:
    return next((text for check in checks if (text := check.missing(place))), "")


def _values(text: str, name: str) -> dict[str, float]:
    found = re.findall(rf"^{re.escape(name)}(\{{[^}}]*\}})? (\S+)", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found}
