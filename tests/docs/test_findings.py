"""The pages on findings have all sections, name requirements and reports that exist, and cover each failed MUST."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
import yaml

from tests.conformance.mutant_trials import SCENARIOS
from tests.docs.documented_commands import ROOT, blocks_of_commands

FOLDER = ROOT / "docs/findings"
INDEX = (FOLDER / "README.md").read_text(encoding="utf-8")
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
SECTIONS = [
    "Versions",
    "What happens",
    "Reproduction",
    "What the document says",
    "Upstream",
    "Text for an issue",
]
LONGEST = 45
GROUPS = "|".join(sorted({each.split("/")[0] for each in SCENARIOS}))
REQUIREMENT = re.compile(rf"\b(?:{GROUPS})/[a-z0-9-]+(?![a-z0-9*-])")
THREAD = re.compile(r"\[([\w./-]+)#(\d+)\]\(https://github\.com/([\w-]+)/([\w-]+)/(?:issues|pull)/(\d+)\)")
REPORTS = sorted(ROOT.glob("reports/1.*/*/*/report.yaml"))


def sections(page: Path) -> dict[str, str]:
    """Return the sections of a page, by heading."""
    _, *parts = re.split(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def linked(text: str, base: Path) -> set[Path]:
    """Return the files and folders that a text links to."""
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", text)
    return {(base / link).resolve() for link in links if not re.match(r"[a-z]+:", link)}


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the first table of the index after a heading, without the header."""
    table = re.search(r"^\|.+?(?=\n\n|\Z)", INDEX[INDEX.index(heading) :], flags=re.MULTILINE | re.DOTALL)
    assert table
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.group().splitlines()[2:]]


@functools.cache
def failed(report: Path) -> frozenset[str]:
    """Return the requirements of level MUST that a report says are not met."""
    tests = yaml.load(report.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)["tests"]
    return frozenset(each["id"] for each in tests if each["verdict"] == "failed" and each["level"] == "MUST")


def excused() -> dict[Path, set[str]]:
    """Return the failed requirements without a page, by folder of the report. An empty set stands for all."""
    found: dict[Path, set[str]] = {}
    for report, requirements, reason in rows("## No page"):
        assert len(reason) > 20
        assert requirements == "all" or REQUIREMENT.search(requirements)
        folders = {path.parent for path in linked(report, FOLDER)}
        assert len(folders) == 1
        found[folders.pop()] = set(REQUIREMENT.findall(requirements))
    return found


def test_requirements_are_recognized() -> None:
    text = "`KEP-4444/a-b`, `GENERATED/all`, 'SERVICE/udp-flows-*' and examples/skew"
    assert REQUIREMENT.findall(text) == ["KEP-4444/a-b", "GENERATED/all"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_has_its_sections(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert list(sections(page)) == SECTIONS
    assert all(content.strip() for content in sections(page).values())
    assert len(text.splitlines()) <= LONGEST


@pytest.mark.parametrize("page", [*PAGES, FOLDER / "README.md"], ids=lambda page: page.stem)
def test_requirements_exist(page: Path) -> None:
    assert set(REQUIREMENT.findall(page.read_text(encoding="utf-8"))) - SCENARIOS.keys() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_observation_has_a_source_that_exists(page: Path) -> None:
    sources = linked(sections(page)["What happens"], FOLDER)
    assert {path for path in sources if not path.exists()} == set()
    assert any(ROOT / "reports" in path.parents or ROOT / "implementations" in path.parents for path in sources)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_reproduction_is_a_command_or_says_why_not(page: Path) -> None:
    shown = blocks_of_commands(str(page.relative_to(ROOT)))
    assert shown or sections(page)["Reproduction"].strip().startswith("No command:")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_document_is_quoted(page: Path) -> None:
    said = sections(page)["What the document says"]
    assert re.search("“[^”]+”", said) or said.strip().startswith("No document covers it.")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_search_has_a_date_and_threads_have_their_numbers(page: Path) -> None:
    upstream = sections(page)["Upstream"]
    assert re.search(r"Searched on \d+ \w+ \d{4}\.", " ".join(upstream.split()))
    text = page.read_text(encoding="utf-8")
    for name, number, _, repository, linked_number in THREAD.findall(text):
        assert (name.split("/")[-1], number) == (repository, linked_number)


def test_index_lists_each_page_once() -> None:
    named = [path for cells in rows("# Findings") for path in linked(cells[0], FOLDER)]
    assert sorted(named) == [page.resolve() for page in PAGES]


def test_index_names_only_requirements_of_the_page() -> None:
    for cells in rows("# Findings"):
        (page,) = linked(cells[0], FOLDER)
        assert set(REQUIREMENT.findall(cells[3])) <= set(REQUIREMENT.findall(page.read_text(encoding="utf-8")))


def test_some_reports_have_failed_requirements() -> None:
    assert len(REPORTS) > 10
    assert sum(bool(failed(report)) for report in REPORTS) > 2


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: "-".join(report.parts[-3:-1]))
def test_each_failed_must_has_a_page_or_a_reason(report: Path) -> None:
    folder = report.parent.resolve()
    excuses = excused()
    if folder in excuses and not excuses[folder]:
        return
    pages = [page for page in PAGES if folder in {path.parent for path in linked(page.read_text("utf-8"), FOLDER)}]
    named = {each for page in pages for each in REQUIREMENT.findall(page.read_text(encoding="utf-8"))}
    assert failed(report) - named - excuses.get(folder, set()) == set()


def test_each_reason_is_for_a_failed_requirement() -> None:
    for folder, requirements in excused().items():
        unmet = failed(folder / "report.yaml")
        assert unmet
        assert requirements - unmet == set()
