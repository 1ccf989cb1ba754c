"""What authors of scenarios get from `harness`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import conformance
import harness


def _imported(tree: ast.AST) -> set[str]:
    """Names that are imported from the harness."""
    statements = (each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom))
    ours = (each for each in statements if (each.module or "").partition(".")[0] == "harness")
    return {name.name for each in ours for name in each.names}


def test_the_suite_uses_every_name_that_is_offered_and_no_other() -> None:
    files = Path(*conformance.__path__).rglob("*.py")
    used = set().union(*(_imported(ast.parse(file.read_text(encoding="utf-8"))) for file in files))
    assert used == set(harness.__all__)


def test_type_checkers_see_the_names_that_are_offered() -> None:
    assert _imported(ast.parse(Path(harness.__file__).read_text(encoding="utf-8"))) == set(harness.__all__)


@pytest.mark.parametrize("name", harness.__all__)
def test_each_name_is_there_and_no_module_hides_it(name: str) -> None:
    assert getattr(harness, name) is not None
    assert not Path(harness.__file__).with_name(name).with_suffix(".py").exists()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'harness' has no attribute 'nothing'"):
        _ = harness.nothing


def test_to_import_the_package_imports_no_room() -> None:
    asked = "import sys, harness; print(*(each for each in sys.modules if each.startswith('harness.')))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
