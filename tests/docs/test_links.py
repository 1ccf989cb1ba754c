"""All links between pages lead to existing pages, files and headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documented_commands import PAGES, ROOT

LINKING = [
    *PAGES,
    *(
        str(each.relative_to(ROOT))
        for pattern in ("*.md", "notes/*.md", "*/*/*/README.md")
        for each in (ROOT / "reports").glob(pattern)
    ),
]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub derives from the headings of a page."""
    fenced = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", fenced, flags=re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", each).lower() for each in headings)
    return {re.sub(r"[^\w\- ]", "", each).strip().replace(" ", "-") for each in plain}


def broken(page: str) -> list[str]:
    """Return the broken links of a page."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = []
    for link in re.findall(r"\]\(<?([^)<>\s]+)>?\)", text):
        place, _, fragment = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = ((ROOT / page).parent / place) if place else ROOT / page
        if not target.exists() or (fragment and target.suffix == ".md" and fragment not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", LINKING)
def test_link_targets_exist(page: str) -> None:
    assert broken(page) == []
