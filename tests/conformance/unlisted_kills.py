"""List the requirements that detect a mutant but do not list it in `kills`.

    python -m tests.conformance.unlisted_kills ignores-external-local       # seconds for each requirement that is tried
    python -m tests.conformance.unlisted_kills ignores-external-local 'KEP-2086/*'

Each output line is a requirement, and the mutant can be added to the `kills` of that requirement. Grids and slow
requirements are left out. They detect most mutants, so they are not specific to one mutant.
"""

from __future__ import annotations

import fnmatch
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from harness import eventually
from harness.errors import HarnessError
from harness.judging.history import History
from harness.model.requirements import Profile
from harness.netns import sandbox
from mutants import MUTANTS, Mutant
from tests.conformance import kill_checks, mutant_trials
from tests.conformance.kill_checks import is_about
from tests.conformance.mutant_trials import SCENARIOS, MutantTrial, booted, draw_of_mutant, time_scaled
from tests.conformance.test_mutants import DEAR, SECONDS


def asked(mutant: Mutant, patterns: Sequence[str]) -> list[str]:
    """Return the fast requirements that test the component of a mutant and do not list the mutant in `kills`."""
    profile = Profile.SERVICE_PROXY if "proxy" in mutant.changes else Profile.ENDPOINTSLICE_CONTROLLER
    return [
        each
        for each, scenario in SCENARIOS.items()
        if scenario.requirement.profile is profile
        and mutant.name not in scenario.requirement.kills
        and SECONDS.get(each, DEAR) < DEAR
        and not each.startswith(("INTERACTIONS/", "GENERATED/"))
        and any(fnmatch.fnmatchcase(each, pattern) for pattern in patterns)
    ]


def finders(mutant: Mutant, requirements: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the requirements that detect a mutant by its symptom, each with the first line of the failure."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(History(Path(folder) / "history.jsonl")) as history,
        booted(mutant) as cluster,
        time_scaled(kill_checks.SHORT),
    ):
        tried = MutantTrial(cluster, history, draw_of_mutant(mutant))
        for each in requirements:
            try:
                text = tried.failure(each)
            except (HarnessError, AssertionError):
                continue
            if text and is_about(text, mutant.symptom):
                yield each, text.partition("\n")[0]


def main(name: str, *patterns: str) -> None:
    """Print the requirements that detect the mutant."""
    sandbox.enter()
    mutant_trials.DECLARED, eventually.FAR = kill_checks.DECLARED, kill_checks.FAR
    mutant = MUTANTS[name]
    for each, line in finders(mutant, asked(mutant, patterns or ("*",))):
        sys.stdout.write(f"{name}\t{each}\t{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
