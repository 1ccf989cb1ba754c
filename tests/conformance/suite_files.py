"""Check and write the entries that each requirement has in the YAML files of the suite.

A test defines each requirement. The requirement also has entries in two YAML files. `needs.yaml` lists what a cluster
must provide, as measured by a run. `coverage.yaml` maps the statements of the documents to requirements.

    python -m tests.conformance.suite_files add KEP-3015/some-thing    # make requirement ID=KEP-3015/some-thing
    python -m tests.conformance.suite_files check                      # make lint
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from conformance import coverage
from harness.errors import HarnessError, UsageError
from harness.judging.exit_codes import ExitCode
from harness.model import needs
from harness.model.requirements import Requirement
from harness.plugin.suite import catalogue
from mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class CheckoutFiles:
    """The YAML files of a checkout."""

    root: Path = ROOT

    @property
    def suite(self) -> Path:
        """The folder of the suite in the checkout."""
        return self.root / "conformance"

    def text(self, name: str) -> str:
        """Return the text of a file in the folder of the suite."""
        return (self.suite / name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        """Write a file in the folder of the suite."""
        (self.suite / name).write_text(text, encoding="utf-8")


def missing(records: CheckoutFiles, requirements: Iterable[Requirement]) -> list[str]:
    """Return each missing entry with the line to add, and each entry of an unknown requirement."""
    suite = {each.id: each for each in requirements}
    needed = needs.read(records.suite)
    return [
        *_unlisted(needs.FILE, suite.values(), needed, "{}:\n      nodes: [...]"),
        *_dead(needs.FILE, suite, needed),
        *_unmapped(records, suite),
        *_without_mutant(suite.values()),
    ]


def _unlisted(file: str, suite: Iterable[Requirement], listed: Iterable[str], line: str) -> Iterator[str]:
    known = set(listed)
    for each in suite:
        if each.id not in known:
            to_add = line.format(each.id)
            yield f"{file}: no line for {each.id}; `make requirement ID={each.id}` measures and adds it:\n    {to_add}"


def _dead(file: str, suite: Mapping[str, Requirement], listed: Iterable[str]) -> Iterator[str]:
    for each in sorted(set(listed) - suite.keys()):
        yield f"{file}: the suite has no requirement {each}: remove its line"


def _unmapped(records: CheckoutFiles, suite: Mapping[str, Requirement]) -> Iterator[str]:
    for problem in coverage.problems(coverage.parse(records.text(coverage.FILE)), suite.keys()):
        found = suite.get(problem.rpartition(" ")[2])
        yield f"{problem}; {by_hand(records, found)}".rstrip() if found else problem


def _without_mutant(suite: Iterable[Requirement]) -> Iterator[str]:
    for each in suite:
        unknown = sorted(set(each.kills) - MUTANTS.keys())
        if unknown:
            yield f"{each.id}: there is no mutant {', '.join(unknown)}; `trafficdist list --mutants` names all"
        elif not each.kills:
            yield f'{each.id}: detects no mutant; add to its decorator:\n    kills={{"..."}},'


def by_hand(records: CheckoutFiles, requirement: Requirement) -> str:
    """Return instructions for adding a requirement to `coverage.yaml` by hand, or "" if none are needed."""
    covered = coverage.parse(records.text(coverage.FILE))
    document = next((each for each in covered.documents if each.name == requirement.document), None)
    if document is None or requirement.id in covered.requirements:
        return ""
    keys = ", ".join(each.key for each in document.statements if each.heading == requirement.section)
    return (
        f"its source names section {requirement.section!r}, with {keys or 'no statement'}\n"
        f"    add {requirement.id} to a statement whose violation makes it fail, under `requirements`,\n"
        f"    else to one about the same subject, under `related`; add missing statements first\n"
    )


def add(records: CheckoutFiles, requirement: Requirement, needed: needs.Needs) -> list[str]:
    """Write the measured needs of a requirement. Return the changed files."""
    steps = {
        f"conformance/{needs.FILE}": lambda: _add_needs(records, requirement, needed),
    }
    return [file for file, step in steps.items() if step()]


def _add_needs(records: CheckoutFiles, requirement: Requirement, needed: needs.Needs) -> bool:
    table = needs.read(records.suite)
    if table.get(requirement.id) == needed:
        return False
    head = "".join(line for line in records.text(needs.FILE).splitlines(keepends=True) if line.startswith("#"))
    records.write(needs.FILE, head + needs.as_yaml({**table, requirement.id: needed}))
    return True


def measure(requirement: Requirement) -> needs.Needs:
    """Run a requirement against the reference, and return the needs that the run measures.

    Raises `UsageError` if the requirement does not pass.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [Path(sys.executable).with_name("trafficdist"), "run", "--run-test", requirement.id, "-n", "0"]
        follow = ["--follow", requirement.as_] if requirement.as_ else []
        code = subprocess.run([*command, *follow, "--output-dir", folder], check=False).returncode
        table = needs.read(Path(folder))
        if code or requirement.id not in table:
            raise UsageError(
                f"the reference does not meet {requirement.id}, as the run above says; nothing was written"
            )
        return table[requirement.id]


def main(arguments: list[str]) -> int:
    """Check all entries, or add the missing entries of one requirement."""
    records, suite = CheckoutFiles(), {each.id: each for each in catalogue()}
    match arguments:
        case ["check"]:
            found = missing(records, suite.values())
            sys.stderr.writelines(f"error: {each}\n" for each in found)
            return int(bool(found))
        case ["add", name] if name in suite:
            found = add(records, suite[name], measure(suite[name]))
            sys.stdout.writelines(f"wrote {each}\n" for each in found or ["nothing: all entries exist"])
            left = by_hand(records, suite[name])
            sys.stdout.write(left and f"left to you is {coverage.FILE}: {left}")
            return 0
        case ["add", name]:
            raise UsageError(f"the suite has no requirement {name!r}: write its test first; `trafficdist list` has all")
    raise UsageError("want `check`, or `add` and the id of a requirement")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except HarnessError as error:
        sys.exit(sys.stderr.write(f"error: {error}\n") and int(ExitCode.USAGE))
