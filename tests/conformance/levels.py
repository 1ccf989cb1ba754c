"""The level of each requirement, with the sentence of a document that gives it. Reads `levels.yaml`.

A MUST has such a sentence, or needs an extended feature. For any other requirement, the file says why it is not a MUST.

    python -m tests.conformance.levels                 # write docs/requirement-levels.md
    python -m tests.conformance.levels quotes FILE...  # print quotes that occur in none of these documents
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.numbered_yaml import YamlNode, compose
from harness.model.requirements import MUST, Requirement
from harness.plugin.suite import catalogue

ROOT = Path(__file__).resolve().parents[2]
FILE = "levels.yaml"
PAGE = ROOT / "docs" / "requirement-levels.md"

FORCE = re.compile(
    r"\b(must|will|shall|is|are|cannot|never|do not)\b"
    r"|\ba maximum of\b"  # a limit
    r"|\bshould be interpreted as\b",  # defines the meaning of an absent value
    re.IGNORECASE,
)
"""Words of a sentence that requires something. Other words are advice, or a permission."""

_SHORT_FORMS = {
    "released behaviour differs since": "the KEP says otherwise, but Kubernetes has met this requirement since",
    "released with the label topology since": "this metric has had the label topology since Kubernetes",
    "released since": "Kubernetes has met this requirement since",
    "released: only ready": "in Kubernetes releases, only ready",
    "; released$": "; Kubernetes releases meet this requirement",
    "says that they are dropped": "says that node hints are dropped",
    "the way of Kubernetes with fields behind gates": "Kubernetes does this with all fields behind feature gates",
    "KEP-4444 calls the result failure": "in KEP-4444, this result of a sync is called failure, not error",
    r", (\d)(?=;|$)": r", item \1",
    r", (\d to \d)$": r", items \1",
    "Local and PreferZone were": "Local and PreferZone once were",
    "the DNS specification, whose .* does not know of endpoints that exist for others": (
        "the DNS specification does not cover endpoints that only other clients may use"
    ),
}
"""Short forms in sources of requirements, and the phrases that the page shows in their place."""

_WEAK = re.compile(r", (Motivation|Goals|Non-Goals|User Stories)\b")


@dataclass(frozen=True, slots=True)
class QuotedSentence:
    """A sentence of a document, and the requirements whose level it gives."""

    source: str
    words: str
    requirements: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Exemption:
    """The reason why requirements are not MUSTs."""

    because: str
    requirements: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Levels:
    """The content of a file of levels."""

    musts: tuple[QuotedSentence, ...]
    others: tuple[Exemption, ...]

    def sentences_of(self, requirement_id: str) -> list[QuotedSentence]:
        """Return the sentences that give the level of a requirement."""
        return [each for each in self.musts if requirement_id in each.requirements]

    def reason_of(self, requirement_id: str) -> str:
        """Return why a requirement is no MUST, or ""."""
        return next((each.because for each in self.others if requirement_id in each.requirements), "")


def load() -> Levels:
    """Return the levels of this suite. Raises `UsageError`."""
    return parse((ROOT / "conformance" / FILE).read_text(encoding="utf-8"))


def parse(text: str) -> Levels:
    """Parse the text of a file of levels. Raises `UsageError` with the line number."""
    fields = compose(text, FILE).fields("musts", "others")
    return Levels(
        tuple(_sentence(each) for each in fields["musts"].items()),
        tuple(_exemption(each) for each in fields["others"].items()),
    )


def _sentence(node: YamlNode) -> QuotedSentence:
    fields = node.fields("source", "words", "requirements")
    return QuotedSentence(fields["source"].text(), fields["words"].text(), fields["requirements"].texts(), node.number)


def _exemption(node: YamlNode) -> Exemption:
    fields = node.fields("because", "requirements")
    return Exemption(fields["because"].text(), fields["requirements"].texts(), node.number)


def problems(levels: Levels, requirements: Iterable[Requirement]) -> Iterator[str]:
    """Yield what is wrong with a file of levels, for the requirements of a suite."""
    suite = {each.id: each for each in requirements}
    for each in levels.musts:
        if not FORCE.search(each.words):
            yield f"{FILE}:{each.line}: the words require nothing: {each.words}"
        if _WEAK.search(each.source):
            yield f"{FILE}:{each.line}: {each.source} requires nothing"
    for entry in (*levels.musts, *levels.others):
        for name in entry.requirements:
            if name not in suite:
                yield f"{FILE}:{entry.line}: the suite has no requirement {name}"
            elif (suite[name].level is MUST) is isinstance(entry, Exemption):
                yield f"{FILE}:{entry.line}: {name} is a {suite[name].level}"
    for name, requirement in sorted(suite.items()):
        if requirement.level is MUST and requirement.core and not levels.sentences_of(name):
            yield f"{FILE}: {name} is a MUST of the core features, but no sentence says so"
        if requirement.level is not MUST and not levels.reason_of(name):
            yield f"{FILE}: {name} is a {requirement.level}, but no reason is given"


def misquoted(levels: Levels, documents: Sequence[str]) -> list[str]:
    """Return the quotes that occur in none of these texts. White space, and comment signs at its side, do not count."""
    texts = [_plain(each) for each in documents]
    return [
        f"{FILE}:{each.line}: {each.source}: {each.words}"
        for each in levels.musts
        if not any(_plain(each.words) in text for text in texts)
    ]


def _plain(text: str) -> str:
    return re.sub(r"\s+", "", re.sub(r"\n\s*//", "\n", text))


_HEAD = """# Levels

    trafficdist list --level MUST    # the requirements of one level

On this page you can look up why a requirement is a MUST, a SHOULD or a MAY. For each MUST of the core features, the
page quotes the words of a KEP or API reference that the level is based on. For each SHOULD and MAY, the page gives the
reason why the requirement is not a MUST.

- **Each MUST of the core features is based on a sentence** that says what an implementation does. Sentences in
  motivations, goals and user stories do not count.
- **A claimed feature is mandatory.** If a KEP makes a feature optional, an implementation that claims it must
  support it on every kind of address, in each IP family and for each protocol. If an implementation does not claim the
  feature, the run skips the requirements of this feature.
- **A claimed feature can turn a SHOULD into a MUST.** "SHOULD, MUST with X" is a MUST for implementations that
  claim feature X. For all others, an unmet SHOULD is only a warning.

`python -m tests.conformance.levels` generates this page from `conformance/levels.yaml` and the decorators of the tests.
"""


def page(levels: Levels, requirements: Iterable[Requirement]) -> str:
    """Return the page with all requirements, by level."""
    ordered = sorted(requirements, key=lambda each: each.id)
    musts = [each for each in ordered if each.level is MUST]
    parts = (
        ("MUSTs for all implementations", "quote that the level is based on", [each for each in musts if each.core]),
        (
            "MUSTs for implementations that claim a feature",
            "section that the level is based on (and its main words)",
            [each for each in musts if not each.core],
        ),
        ("SHOULDs and MAYs", "why it is not a MUST", [each for each in ordered if each.level is not MUST]),
    )
    return _HEAD + "".join(_table(title, column, rows, levels) for title, column, rows in parts)


def _table(title: str, column: str, rows: Sequence[Requirement], levels: Levels) -> str:
    lines = [f"| `{each.id}` | {_level(each)} | {_features(each)} | {_ground(each, levels)} |\n" for each in rows]
    return f"\n## {title}\n\n| requirement | level | features | {column} |\n|---|---|---|---|\n" + "".join(lines)


def _level(requirement: Requirement) -> str:
    return f"{requirement.level}, MUST with `{requirement.must_if.name}`" if requirement.must_if else requirement.level


def _features(requirement: Requirement) -> str:
    return ", ".join(each.name for each in requirement.features if not each.core or requirement.core)


def _ground(requirement: Requirement, levels: Levels) -> str:
    found = [f"{each.source}: “{each.words}”" for each in levels.sentences_of(requirement.id)]
    return ("; ".join(found) or levels.reason_of(requirement.id) or _spelled_out(requirement.source)).replace(
        "|", "\\|"
    )


def _spelled_out(source: str) -> str:
    """Return a source of a requirement with whole phrases in place of its short forms."""
    for short, phrase in _SHORT_FORMS.items():
        source = re.sub(short, phrase, source)
    return source


def main(arguments: Sequence[str], suite: Mapping[str, Requirement]) -> int:
    """Write the page, or print the quotes that are in none of the named files."""
    levels = load()
    if arguments[:1] == ["quotes"]:
        wrong = misquoted(levels, [Path(each).read_text(encoding="utf-8") for each in arguments[1:]])
        sys.stdout.write("".join(f"{each}\n" for each in wrong))
        return 1 if wrong else 0
    PAGE.write_text(page(levels, suite.values()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], {each.id: each for each in catalogue()}))
