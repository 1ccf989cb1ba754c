"""The command at the end of a failure message, which runs one requirement again with the same settings.

The command has all options that can change the verdict, except those that other options imply (such as a mode implied
by the proxy).
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import UsageError
from harness.judging.results import Case
from harness.run.suite_files import SUITE
from harness.settings.option import Option
from harness.settings.options import OPTIONS, resolve
from harness.settings.settings import Settings

ELSEWHERE = frozenset(
    {"run-test", "quick", "skip-tests", "output-dir", "workers", "keep", "fail-fast", "warnings-as-errors",
     "keep-cluster", "junit-warnings", "organization", "project", "url", "version", "contact"}
)  # fmt: skip
"""Options that select other requirements, choose the output, or name the implementation."""

_ALWAYS = ("backend", "seed")  # the plugin has no default backend, and the seed has no default at all


def again(settings: Settings, case: Case, *, arguments: Sequence[str]) -> str:
    """Return the command for a case of a run with these arguments. For a custom suite, this is a pytest command."""
    published = case.nodeid.partition("/")[0] == SUITE
    if published or "trafficdist" in arguments[:1]:
        return command(settings, case.requirement, arguments=arguments)
    return command_of_pytest(settings, case.nodeid)


def command(settings: Settings, requirement_id: str, *, arguments: Sequence[str] = ("trafficdist",)) -> str:
    """Return the command as a shell line. `arguments` are those of the run, which may name another suite."""
    suite = _suite(arguments)
    words = ["trafficdist", "run", *(["--suite", suite] if suite else []), "--run-test", requirement_id]
    given = _given(settings)
    of_file = {option: value for option, value in given.items() if not option.on_command_line}
    variables = [f"{option.environment}={shlex.quote(_text(value))}" for option, value in of_file.items()]
    options = [word for option in given if option not in of_file for word in _words(option, given[option], "--")]
    return " ".join([*variables, shlex.join([*words, *options])])


def command_of_pytest(settings: Settings, nodeid: str) -> str:
    """Return the command for a requirement of a custom suite, which pytest runs in place."""
    options = [word for option, value in _given(settings).items() for word in _words(option, value, "--td-")]
    return shlex.join(["pytest", nodeid, *options])


def _suite(arguments: Sequence[str]) -> str:
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word.partition("=")[0] == "--suite":
            return word.partition("=")[2] or following
    return ""


@functools.lru_cache(maxsize=8)
def _given(settings: Settings) -> Mapping[Option, Any]:
    """Return the options that produce these settings, without options that other options imply."""
    kept = [each for each in OPTIONS if each.name not in ELSEWHERE]
    values = settings.to_json()
    given = {each.name: values[each.key] for each in kept if values[each.key] not in (each.default, "", (), None)}
    given |= {name: values[name] for name in _ALWAYS}
    wanted = _decisive(given)
    for name in [each for each in given if each not in _ALWAYS]:
        fewer = {other: value for other, value in given.items() if other != name}
        if wanted and _decisive(fewer) == wanted:
            given = fewer
    return {each: given[each.name] for each in kept if each.name in given}


def _decisive(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return those of the settings that can change a verdict, or None if the options have become invalid."""
    try:
        resolved = resolve(given, environment={}).to_json()
    except UsageError:
        return None
    return {each.key: resolved[each.key] for each in OPTIONS if each.name not in ELSEWHERE}


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _words(option: Option, value: Any, dashes: str) -> list[str]:
    if option.kind == "flag":
        return [dashes + option.name]
    values = value if option.kind == "list" else (value,)
    return [word for each in values for word in (dashes + option.name, str(each))]
