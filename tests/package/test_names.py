"""The names that `trafficdist` exports for authors of scenarios."""

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


def test_the_suite_uses_every_name_that_is_offered_and_no_other() -> None:
    files = Path(*conformance.__path__).rglob("*.py")
    used = set().union(*(_imported(ast.parse(file.read_text(encoding="utf-8"))) for file in files))
    assert used == set(trafficdist.__all__)


@pytest.mark.parametrize("name", trafficdist.__all__)
def test_each_name_is_there_and_no_module_hides_it(name: str) -> None:
    assert getattr(trafficdist, name) is not None
    assert not Path(trafficdist.__file__).with_name(name).with_suffix(".py").exists()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'trafficdist' has no attribute 'nothing'"):
        _ = trafficdist.nothing


def test_importing_the_face_imports_no_other_package() -> None:
    asked = (
        "import sys, trafficdist; print(*(each for each in sys.modules if each.startswith(('harness', 'reference'))))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert not {"harness", "reference", "conformance"} & {*done.stdout.split()}
