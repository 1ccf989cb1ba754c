"""Store the results of benign variants by requirement. An interrupted run resumes if the code has not changed.

`python -m tests.conformance.benign_results` lists the completed variants, their readings, and their failures.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = ("conformance", "harness", "mutants", "reference")
FOLDER = ROOT / ".pytest_cache/d"


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """The result of one requirement: the verdict (passed, failed or inconclusive), the duration and the text."""

    requirement: str
    verdict: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    text: str = ""


class VariantResults:
    """The results of one variant in one reading of the KEPs.

    Inconclusive results are not stored, so the next run repeats them.
    """

    def __init__(self, folder: Path, name: str, reading: str) -> None:
        self._path = folder / f"{name}.{reading}.jsonl"
        self.outcomes: dict[str, RequirementResult] = {each.requirement: each for each in self._read()}

    def _read(self) -> Iterator[RequirementResult]:
        for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else ():
            try:
                yield RequirementResult(**json.loads(line))
            except ValueError:  # the run was killed during a write
                continue

    def note(self, outcome: RequirementResult) -> None:
        """Write a result to disk."""
        self.outcomes[outcome.requirement] = outcome
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")

    def left(self, requirements: Collection[str]) -> list[str]:
        """Return the requirements without a conclusive result."""
        told = {name for name, each in self.outcomes.items() if each.verdict != "inconclusive"}
        return sorted(set(requirements) - told)

    def texts(self, verdict: str, requirements: Collection[str]) -> dict[str, str]:
        """Return the texts of the results that have this verdict."""
        return {
            name: each.text
            for name, each in sorted(self.outcomes.items())
            if each.verdict == verdict and name in requirements
        }


def folder(of: Path = FOLDER) -> Path:
    """Return the folder for results of the current code. Create the folder if necessary."""
    made = of / f"benign-{digest()}"
    made.mkdir(parents=True, exist_ok=True)
    return made


def digest() -> str:
    """Return a hash of all code that affects a result."""
    found = hashlib.sha256()
    for path in sorted(each for room in CODE for each in (ROOT / room).rglob("*.py")):
        found.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:12]


def summary(all_of: Mapping[tuple[str, str], Collection[str]], seen_in: Path) -> Iterator[str]:
    """Return a summary of each variant and reading that lists the missing requirements.

    `all_of` contains all requirements.
    """
    whole, trials, failed, seconds, cpu_seconds = 0, 0, 0, 0.0, 0.0
    for (name, reading), requirements in all_of.items():
        seen = VariantResults(seen_in, name, reading)
        left, texts = seen.left(requirements), seen.texts("failed", requirements)
        whole, trials, failed = whole + (not left), trials + len(requirements) - len(left), failed + len(texts)
        seconds += sum(each.seconds for each in seen.outcomes.values())
        cpu_seconds += sum(each.cpu_seconds for each in seen.outcomes.values())
        if seen.outcomes:
            state = "whole" if not left else f"{len(left)} left"
            failures = f"; failed: {', '.join(texts)}" if texts else ""
            yield f"{name} ({reading}): {len(requirements)} requirements, {state}{failures}"
    yield (
        f"{whole} of {len(all_of)} seen whole, {trials} of {sum(map(len, all_of.values()))} trials, {failed} failed; "
        f"{seconds:.0f} s, {cpu_seconds:.0f} s of CPU"
    )


if __name__ == "__main__":
    from tests.conformance.benign_matrix import TRIED

    sys.stdout.writelines(f"{each}\n" for each in summary(TRIED, folder()))
