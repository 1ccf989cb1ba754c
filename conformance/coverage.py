"""Parse and check `coverage.yaml`, which maps each statement of the KEPs and API references to the requirements that
test it.

A passing suite is meaningful only if readers know which statements the suite does not test. For every statement of a
KEP or an API reference, section by section, the file lists requirements, or the reason why no requirement tests the
statement. The check compares the file with the requirement ids of the suite, without a cluster or pytest. `python -m
conformance.coverage` prints the statements that could be tested but have no test.
"""

from __future__ import annotations

import enum
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources

from conformance.numbered_yaml import YamlNode, compose
from trafficdist import (
    UsageError,
)

FILE = "coverage.yaml"

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class ExclusionReason(enum.StrEnum):
    NOT_TESTABLE = "not-testable"  # motivation, advice, process, or a permission, which cannot be violated
    NOT_OBSERVABLE = "not-observable"  # not externally observable within the stated error rates
    SUPERSEDED = "superseded"  # contradicted by a later document
    FUTURE = "future"  # a possible expansion that no implementation has
    OUT_OF_SCOPE = "out-of-scope"  # about another component, or covered by another document
    NOT_TESTED = "not-tested"  # testable, but deliberately not tested


@dataclass(frozen=True, slots=True)
class CoveredStatus:
    """The status of a statement that is tested by requirements."""

    requirements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenStatus:
    """The status of a testable statement that has no requirement yet. `because` is the reason."""

    because: str


@dataclass(frozen=True, slots=True)
class ExcludedStatus:
    """The status of a statement that the suite deliberately does not test."""

    reason: ExclusionReason
    because: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A paraphrased statement of a KEP or an API reference about the behaviour of a component.

    A component that violates the statement fails a requirement in `outcome`, but may pass requirements in `related`.
    """

    document: str
    heading: str
    key: str
    says: str
    outcome: CoveredStatus | OpenStatus | ExcludedStatus
    related: tuple[str, ...]
    line: int

    @property
    def id(self) -> str:
        """The document and key of the statement, for example KEP-4444#annotation-first."""
        return f"{self.document}#{self.key}"

    @property
    def requirements(self) -> tuple[str, ...]:
        """The ids of all requirements listed for the statement, including `related`."""
        return (*(self.outcome.requirements if isinstance(self.outcome, CoveredStatus) else ()), *self.related)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a document with its statements, or the reason why the section has no statements."""

    heading: str
    statements: tuple[Statement, ...]
    nothing: str
    line: int


@dataclass(frozen=True, slots=True)
class Document:
    """A document with its sections in order. `text` names the repository, path and commit of the document, or is ""."""

    name: str
    title: str
    text: str
    sections: tuple[Section, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        return tuple(statement for section in self.sections for statement in section.statements)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The content of a coverage file."""

    documents: tuple[Document, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        return tuple(statement for document in self.documents for statement in document.statements)

    @property
    def requirements(self) -> frozenset[str]:
        return frozenset(name for statement in self.statements for name in statement.requirements)


def load() -> Coverage:
    """Return the coverage of this suite. Raises `UsageError`."""
    return parse(resources.files("conformance").joinpath(FILE).read_text(encoding="utf-8"))


def parse(text: str) -> Coverage:
    """Parse the content of a coverage file. Raises `UsageError` with the line number."""
    fields = compose(text, FILE).fields("documents")
    return Coverage(tuple(_document(each) for each in fields["documents"].items()))


def problems(coverage: Coverage, requirements: Collection[str]) -> list[str]:
    """Return one message for each error in a coverage file. `requirements` are all requirement ids."""
    return [*_dead_ids(coverage, requirements), *_unmapped_requirements(coverage, requirements)]


def summary(coverage: Coverage) -> str:
    """Return the numbers of statements by outcome, in total and by document, and the list of untested statements."""
    parts = [("", coverage.statements)]
    parts += [(f"{each.name}: ", each.statements) for each in coverage.documents]
    lines = [name + _counts(statements) for name, statements in parts]
    return "\n".join([*lines, *_untested(coverage)])


def _counts(statements: Sequence[Statement]) -> str:
    outcomes = Counter(_name(each.outcome) for each in statements)
    return f"{len(statements)} statements: " + ", ".join(f"{n} {name}" for name, n in outcomes.items())


def _untested(coverage: Coverage) -> Iterator[str]:
    for each in coverage.statements:
        match each.outcome:
            case OpenStatus(because):
                yield f"{each.id}: {each.says} Open: {because}"
            case ExcludedStatus(ExclusionReason.NOT_TESTED, because):
                yield f"{each.id}: {each.says} Not tested: {because}"


def _document(node: YamlNode) -> Document:
    fields = node.fields("document", "title", "sections", optional=("text",))
    name = fields["document"].text()
    sections = tuple(_section(each, name) for each in fields["sections"].items())
    _refuse_repetition(((each.heading, each.line) for each in sections), f"heading of {name}")
    text = fields["text"].text() if "text" in fields else ""
    document = Document(name, fields["title"].text(), text, sections)
    _refuse_repetition(((each.key, each.line) for each in document.statements), f"key of {name}")
    return document


def _section(node: YamlNode, document: str) -> Section:
    fields = node.fields("heading", optional=("statements", "nothing"))
    if ("statements" in fields) == ("nothing" in fields):
        raise node.error("expected either statements, or `nothing` with the reason why there are none")
    heading = fields["heading"].text()
    if "nothing" in fields:
        return Section(heading, (), fields["nothing"].text(), node.number)
    statements = tuple(_statement(each, document, heading) for each in fields["statements"].items())
    if not statements:
        raise node.error(f"section {heading!r} has no statement; give the reason under `nothing`")
    return Section(heading, statements, "", node.number)


def _statement(node: YamlNode, document: str, heading: str) -> Statement:
    fields = node.fields("key", "says", "requirements", optional=("status", "because", "related"))
    key = fields["key"].text()
    if not _SLUG.fullmatch(key):
        raise node.error(f"key {key!r}: expected lower-case words separated by dashes")
    related = fields["related"].texts() if "related" in fields else ()
    return Statement(document, heading, key, fields["says"].text(), _outcome(node, fields), related, node.number)


def _outcome(node: YamlNode, fields: dict[str, YamlNode]) -> CoveredStatus | OpenStatus | ExcludedStatus:
    requirements = fields["requirements"].texts()
    reasons = sorted(fields.keys() & {"status", "because"})
    if requirements:
        if reasons:
            raise node.error(f"a statement with requirements must have no {', '.join(reasons)}")
        return CoveredStatus(requirements)
    if len(reasons) < 2:
        raise node.error("a statement without requirements needs `status` and `because`")
    status, because = fields["status"].one_of(("open", *ExclusionReason)), fields["because"].text()
    return OpenStatus(because) if status == "open" else ExcludedStatus(ExclusionReason(status), because)


def _refuse_repetition(names: Iterator[tuple[str, int]], what: str) -> None:
    first: dict[str, int] = {}
    for name, line in names:
        if name in first:
            raise UsageError(f"{FILE}:{line}: {what} {name!r} is already listed on line {first[name]}")
        first[name] = line


def _dead_ids(coverage: Coverage, requirements: Collection[str]) -> Iterator[str]:
    for statement in coverage.statements:
        for each in statement.requirements:
            if each not in requirements:
                yield f"{FILE}:{statement.line}: {statement.id}: the suite has no requirement {each}"


def _unmapped_requirements(coverage: Coverage, requirements: Collection[str]) -> Iterator[str]:
    documents = {each.name for each in coverage.documents}
    for each in sorted(set(requirements) - coverage.requirements):
        if each.partition("/")[0] in documents:
            yield f"{FILE}: no statement is mapped to requirement {each}"


def _name(outcome: CoveredStatus | OpenStatus | ExcludedStatus) -> str:
    match outcome:
        case CoveredStatus():
            return "covered"
        case OpenStatus():
            return "open"
        case ExcludedStatus(reason):
            return str(reason)


if __name__ == "__main__":
    sys.stdout.write(summary(load()) + "\n")
