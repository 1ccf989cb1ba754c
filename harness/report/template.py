"""The common style of HTML pages, and their template engine, which escapes values and shows control characters."""

from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from harness.model.escaping import for_terminal


def environment(package: str) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def file(package: str, name: str) -> str:
    return resources.files(package).joinpath("templates", name).read_text(encoding="utf-8")


def style(*more: str) -> Markup:
    return Markup("\n".join([file("harness.report.page", "page.css"), *more]))  # noqa: S704  files of this package


def _shown(value: Any) -> Any:
    return for_terminal(value) if type(value) is str else value
