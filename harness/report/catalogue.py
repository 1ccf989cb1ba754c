"""Write the catalogue of requirements, ordered by id, as JSON, YAML, Markdown or a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.judging.results import requirement_to_json
from harness.model.requirements import Profile, Requirement
from harness.report.environment import catalogue_digest, name_and_version
from harness.report.listed import ListedRow, as_json, as_lines, as_yaml, markdown_row


def write(
    requirements: Sequence[Requirement], form: str, *, of: Sequence[Requirement], suite: Path, width: int = 0
) -> str:
    """Return requirements as json, yaml, md or table.

    `of` is the whole catalogue of the suite in the folder `suite`. `width` is 0 if there is no terminal.
    """
    match form:
        case "json":
            return as_json(as_data(requirements, of=of, suite=suite))
        case "yaml":
            return as_yaml(as_data(requirements, of=of, suite=suite))
        case "md":
            return as_markdown(requirements, suite)
    if not width:
        return as_lines([_row(each) for each in requirements], width=0)
    sections = []
    for profile, mine in _by_profile(requirements):
        sections.append(f"{profile}: {len(mine)}\n\n{as_lines([_row(each) for each in mine], width=width)}")
    return "\n\n".join(sections)


def as_data(requirements: Sequence[Requirement], *, of: Sequence[Requirement], suite: Path) -> dict[str, Any]:
    return {
        "suite": {**name_and_version(suite), "catalogueDigest": catalogue_digest(of)},
        "requirements": [_values(each) for each in requirements],
    }


def as_markdown(requirements: Sequence[Requirement], suite: Path) -> str:
    of = " ".join(name_and_version(suite).values())
    lines = ["# Requirements", "", f"{len(requirements)} requirements of {of}.", ""]
    for profile, mine in _by_profile(requirements):
        lines += [f"## {profile}", "", "| id | level | requirement | features | source |", "|---|---|---|---|---|"]
        lines += [_markdown_row(each) for each in mine]
        lines.append("")
    return "\n".join(lines).rstrip()


def _by_profile(requirements: Sequence[Requirement]) -> list[tuple[Profile, list[Requirement]]]:
    grouped = [(profile, [each for each in requirements if each.profile == profile]) for profile in Profile]
    return [(profile, mine) for profile, mine in grouped if mine]


def _row(requirement: Requirement) -> ListedRow:
    return ListedRow(requirement.id, f"{requirement.level:<6}", (requirement.sentence,))


def _values(requirement: Requirement) -> dict[str, Any]:
    row = requirement_to_json(requirement)
    row["core"] = requirement.core
    row["features"] = [feature.name for feature in requirement.features]
    return {key: value for key, value in row.items() if value != ""}


def _markdown_row(requirement: Requirement) -> str:
    features = ", ".join(feature.name for feature in requirement.features)
    return markdown_row(
        (f"`{requirement.id}`", str(requirement.level), requirement.sentence, features, requirement.source)
    )
