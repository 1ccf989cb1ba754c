"""The catalogue of requirements as JSON, YAML, Markdown or a table, always by id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml
from rich.box import SIMPLE
from rich.table import Table

from harness.report.environment import catalogue_digest, suite_version
from harness.report.results import requirement_to_json
from harness.requirements import Profile, Requirement


def as_data(requirements: Sequence[Requirement]) -> dict[str, Any]:
    """The catalogue as plain values, with the digest that reports quote."""
    return {
        "suite": {"name": "trafficdist", "version": suite_version(), "catalogueDigest": catalogue_digest(requirements)},
        "requirements": [_row(each) for each in requirements],
    }


def as_json(requirements: Sequence[Requirement]) -> str:
    """The catalogue as JSON."""
    return json.dumps(as_data(requirements), indent=2, ensure_ascii=False)


def as_yaml(requirements: Sequence[Requirement]) -> str:
    """The catalogue as YAML."""
    return yaml.safe_dump(as_data(requirements), sort_keys=False, width=120, allow_unicode=True).rstrip()


def as_markdown(requirements: Sequence[Requirement]) -> str:
    """The catalogue as a Markdown page: a section a profile, a table row a requirement."""
    lines = ["# Requirements", "", f"{len(requirements)} requirements of trafficdist {suite_version()}.", ""]
    for profile in Profile:
        mine = [each for each in requirements if each.profile == profile]
        if mine:
            lines += [f"## {profile}", "", "| id | level | requirement | features | source |", "|---|---|---|---|---|"]
            lines += [_markdown_row(each) for each in mine]
            lines.append("")
    return "\n".join(lines).rstrip()


def print_table(requirements: Sequence[Requirement], console: Any) -> None:
    """Print the catalogue on a `rich.console.Console`, a table a profile."""
    for profile in Profile:
        mine = [each for each in requirements if each.profile == profile]
        if not mine:
            continue
        table = Table(title=f"{profile}: {len(mine)} requirements", title_justify="left", show_lines=False, box=SIMPLE)
        table.add_column("requirement", ratio=2, overflow="fold")
        table.add_column("level", min_width=6, no_wrap=True)
        table.add_column("what must be true", ratio=3)
        for each in mine:
            table.add_row(each.id, str(each.level), each.sentence)
        console.print(table)
        console.print()


def _row(requirement: Requirement) -> dict[str, Any]:
    row = requirement_to_json(requirement)
    row["core"] = requirement.core
    row["features"] = [feature.name for feature in requirement.features]
    return {key: value for key, value in row.items() if value != ""}


def _markdown_row(requirement: Requirement) -> str:
    features = ", ".join(feature.name for feature in requirement.features)
    cells = (f"`{requirement.id}`", str(requirement.level), requirement.sentence, features, requirement.source)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
