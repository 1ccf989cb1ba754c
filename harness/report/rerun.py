"""The command at the end of a failure message. It runs one requirement again, with all options that affect verdicts."""

import itertools
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from harness.judging.results import Case
from harness.run.suite_files import SUITE
from harness.settings.options import OPTIONS, Option
from harness.settings.settings import Settings

ELSEWHERE = frozenset(
    {"run-test", "quick", "skip-tests", "shard", "output-dir", "workers", "keep", "fail-fast", "warnings-as-errors",
     "keep-cluster", "junit-warnings", "organization", "project", "url", "version", "contact"}
)  # fmt: skip
"""Options that the command omits: they select other requirements, choose the output, or name the implementation."""

_ALWAYS = ("backend", "seed")  # the plugin has no default backend, and with --generate the seed is random


def again(settings: Settings, case: Case, *, arguments: Sequence[str]) -> str:
    """Return the command for a case of a run with these arguments. It is `pytest …` if pytest ran a custom suite."""
    published = case.nodeid.partition("/")[0] == SUITE
    if published or "trafficdist" in arguments[:1]:
        return command(settings, case.requirement, arguments=arguments)
    return command_of_pytest(settings, case.nodeid)


def command(settings: Settings, requirement_id: str, *, arguments: Sequence[str] = ("trafficdist",)) -> str:
    """Return the command as a shell line. `arguments` are those of the run, which may name another suite."""
    suite = value_of("suite", arguments)
    words = ["trafficdist", "run", *(["--suite", suite] if suite else []), "--run-test", requirement_id]
    given = _given(settings)
    of_file = {option: value for option, value in given.items() if not option.on_command_line}
    variables = [f"{option.environment}={shlex.quote(_text(value))}" for option, value in of_file.items()]
    options = [word for option in given if option not in of_file for word in _words(option, given[option], "--")]
    return " ".join([*variables, shlex.join([*words, *options])])


def command_of_pytest(settings: Settings, nodeid: str) -> str:
    """Return the command for a requirement of a custom suite, which pytest runs directly."""
    options = [word for option, value in _given(settings).items() for word in _words(option, value, "--td-")]
    return shlex.join(["pytest", nodeid, *options])


def value_of(name: str, arguments: Sequence[str]) -> str:
    """Return the last value of an option in the arguments of the command or of pytest, or "" if it is absent."""
    last = ""
    for argument, after in itertools.pairwise([*arguments, ""]):
        option, sign, value = argument.partition("=")
        if option in (f"--{name}", f"--td-{name}"):
            last = value if sign else after
    return last


def _given(settings: Settings) -> Mapping[Option, Any]:
    values = settings.to_json()
    kept = [each for each in OPTIONS if each.name not in ELSEWHERE]
    given = [each for each in kept if each.key in settings.given or each.name in _ALWAYS]
    return {each: values[each.key] for each in given if values[each.key] is not False}


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _words(option: Option, value: Any, dashes: str) -> list[str]:
    if option.kind == "flag":
        return [dashes + option.name]
    values = value if option.kind == "list" else (value,)
    return [word for each in values for word in (dashes + option.name, str(each))]
