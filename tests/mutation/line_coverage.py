"""Map each requirement to the lines of the reference that it executes.

A requirement cannot kill a mutant whose line it does not execute.

Coverage.py measures one run of the unchanged reference for each requirement. The map is stored with the results. All
requirements run against mutants of modules that have changed since, and of lines that run at import or boot. New
requirements always run.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.model.requirements import Profile
from harness.run.folder import write_whole
from tests.conformance.mutant_trials import SCENARIOS
from tests.mutation.evaluation import FORKS, booted
from tests.mutation.mutations import Mutation
from tests.mutation.patched_import import ROOT, module_file, text_of

READINGS = ("kep", "released")
_READ_THE_KEPS = {Profile.ENDPOINTSLICE_CONTROLLER, Profile.API_SERVER}

ALWAYS = ""
"""The lines that run at import and boot."""


def readings_of(requirement: str) -> tuple[str, ...]:
    """Return the readings of the KEPs to measure for a requirement.

    Only controllers and API servers depend on the reading.
    """
    about = SCENARIOS[requirement].requirement
    if about.as_:
        return (about.as_,)
    return READINGS if about.profile in _READ_THE_KEPS else READINGS[:1]


@dataclass(frozen=True, slots=True)
class ExecutedLines:
    """The measured requirements, and the lines of each module that a requirement executed."""

    requirements: AbstractSet[str] = frozenset()
    modules: Mapping[str, Mapping[str, AbstractSet[int]]] = field(default_factory=dict)

    def executing(self, mutation: Mutation, requirements: Iterable[str]) -> list[str]:
        """Return the requirements that execute or may execute the lines of a mutation."""
        first, last = mutation.lines
        lines = set(range(first, last + 1))
        of = self.modules.get(mutation.module, {})
        if not of or lines & of.get(ALWAYS, frozenset()):
            return list(requirements)
        return [each for each in requirements if each not in self.requirements or lines & of.get(each, frozenset())]


def known(file: Path, *, anew: bool = False) -> ExecutedLines:
    """Read the map from a file, or measure it, which takes minutes. Changed and deleted modules are left out."""
    if anew or not file.exists():
        sys.stdout.write("measuring which requirements run which lines of the reference\n")
        sys.stdout.flush()
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps({"requirements": sorted(SCENARIOS), "modules": _measured()}))
    measured = json.loads(file.read_text(encoding="utf-8"))
    modules = {
        module: {requirement: frozenset(lines) for requirement, lines in of["lines"].items()}
        for module, of in measured["modules"].items()
        if module_file(module).exists() and of["digest"] == _digest(module)
    }
    return ExecutedLines(frozenset(measured["requirements"]), modules)


def _digest(module: str) -> str:
    return hashlib.sha256(text_of(module).encode()).hexdigest()[:12]


def _measured() -> dict[str, Any]:
    """Measure all profiles in separate processes."""
    receivers = []
    for profile in Profile:
        receiver, sender = FORKS.Pipe(duplex=False)
        requirements = [each for each, scenario in SCENARIOS.items() if scenario.requirement.profile is profile]
        FORKS.Process(target=_measure, args=(sender, requirements)).start()
        sender.close()
        receivers.append(receiver)
    found: dict[str, dict[str, list[int]]] = {}
    for receiver in receivers:
        while isinstance(received := receiver.recv(), str):
            pass
        for module, lines in received.items():
            mine = found.setdefault(module, {})
            always = sorted({*mine.get(ALWAYS, ()), *lines.get(ALWAYS, ())})
            mine.update({**lines, ALWAYS: always})
    return {module: {"digest": _digest(module), "lines": lines} for module, lines in found.items()}


def _measure(sender: Connection, requirements: Sequence[str]) -> None:
    from coverage import Coverage  # noqa: PLC0415  not before the fork

    coverage = Coverage(data_file=None, include=[f"{ROOT}/reference/*"], config_file=False)
    coverage.start()
    for info in pkgutil.walk_packages([str(ROOT / "reference")], "reference."):
        importlib.import_module(info.name)  # otherwise late imports would count for one requirement
    with TemporaryDirectory() as folder, booted(Path(folder)) as cluster:
        with cluster.cluster("boot") as boots:
            boots.backend.booted.dns()  # starts on first use
        for each in requirements:
            sender.send(each)  # fails and ends this process if the parent process has ended
            coverage.switch_context(each)
            for reading in readings_of(each):
                cluster.outcome(each, reading)
        coverage.stop()
        data = coverage.get_data()
        found: dict[str, dict[str, list[int]]] = {}
        for file in data.measured_files():
            if Path(file).name == "__init__.py":
                continue
            module = ".".join(Path(file).relative_to(ROOT).with_suffix("").parts)
            for line, contexts in data.contexts_by_lineno(file).items():
                for each in contexts:
                    found.setdefault(module, {}).setdefault(each, []).append(line)
    sender.send(found)
    os._exit(0)
