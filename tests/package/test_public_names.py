"""Test the names that `trafficdist` exports to authors of scenarios."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import conformance
import trafficdist


def _imported(tree: ast.AST) -> set[str]:
    """Return the names that a module imports from `trafficdist`."""
    statements = (each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom))
    ours = (each for each in statements if each.module == "trafficdist")
    return {name.name for each in ours for name in each.names}


def test_suite_uses_exactly_the_public_names() -> None:
    files = Path(*conformance.__path__).rglob("*.py")
    used = set().union(*(_imported(ast.parse(file.read_text(encoding="utf-8"))) for file in files))
    assert used == set(trafficdist.__all__)


@pytest.mark.parametrize("name", trafficdist.__all__)
def test_each_public_name_exists_and_is_not_hidden_by_a_module(name: str) -> None:
    assert getattr(trafficdist, name) is not None
    assert not Path(trafficdist.__file__).with_name(name).with_suffix(".py").exists()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'trafficdist' has no attribute 'nothing'"):
        _ = trafficdist.nothing


def test_importing_the_public_package_imports_no_other() -> None:
    asked = (
        "import sys, trafficdist; print(*(each for each in sys.modules if each.startswith(('harness', 'reference'))))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert not {"harness", "reference", "conformance"} & {*done.stdout.split()}
