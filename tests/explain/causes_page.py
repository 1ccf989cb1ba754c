"""The paragraphs of docs/explain.md about causes. `python -m tests.explain.causes_page` writes these paragraphs."""

from __future__ import annotations

from pathlib import Path

from explain.causes import Cause, causes

PAGE = Path(__file__).resolve().parents[2] / "docs/explain.md"
_BEGIN = "## Causes\n"
_INTRODUCTION = """
The command prints the id of each cause that it finds. This list shows the usual severity of each cause. In the output,
the severity depends on the effect of the cause in the cluster.
""".strip()
_SEVERITIES = {"fails": "error", "crosses": "warning", "as_asked": "info", "note": "info"}


def stale() -> list[str]:
    """Return the name of the page in a list if its paragraphs are out of date, or an empty list."""
    return [] if PAGE.read_text(encoding="utf-8") == _whole() else [PAGE.name]


def _whole() -> str:
    before = PAGE.read_text(encoding="utf-8").partition(_BEGIN)[0]
    return f"{before}{_BEGIN}\n{_INTRODUCTION}\n\n" + "\n".join(map(_paragraph, causes().values()))


def _paragraph(cause: Cause) -> str:
    severity = _SEVERITIES[cause.weight.name.lower()]
    details = f"Severity: `{severity}`. Fix: {cause.remedy}. Source: {cause.source}"
    return f"### `{cause.id}`\n\n{cause.means}\n\n{details}\n"


if __name__ == "__main__":
    PAGE.write_text(_whole(), encoding="utf-8")
