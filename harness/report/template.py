"""The template engine of HTML pages, and the style that all of them share.

All texts of others are escaped by the engine, and what a screen would obey is shown.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from harness.model.escaping import for_terminal


def environment(package: str) -> jinja2.Environment:
    """Return the engine for the templates of a package."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def file(package: str, name: str) -> str:
    """Return the text of a file beside the templates of a package."""
    return resources.files(package).joinpath("templates", name).read_text(encoding="utf-8")


def style(*more: str) -> Markup:
    """Return the style of all pages, and after it more of our own."""
    return Markup("\n".join([file("harness.report.page", "page.css"), *more]))  # noqa: S704  files of ours


def _shown(value: Any) -> Any:
    """Return what the template writes: a text that no screen obeys."""
    return for_terminal(value) if type(value) is str else value
