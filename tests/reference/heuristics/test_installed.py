"""Heuristics are found by entry points, both in this project and in packages that the test creates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reference.heuristics import HeuristicError, PreferNextZone, installed, installed_heuristics

ENTRY_POINTS = """
[trafficdist.heuristics]
example.org/Missing = no_such_package:Heuristic
example.org/Angry = builtins:open
example.org/Dict = builtins:dict
"""


@pytest.fixture
def _other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    installed._found.cache_clear()
    yield
    installed._found.cache_clear()


def test_the_example_is_installed() -> None:
    found = installed_heuristics()
    assert "trafficdist.dev/PreferNextZone" in found
    assert isinstance(found["trafficdist.dev/PreferNextZone"], PreferNextZone)


def test_heuristic_is_instantiated_once() -> None:
    found = installed_heuristics()
    assert found["trafficdist.dev/PreferNextZone"] is found["trafficdist.dev/PreferNextZone"]


@pytest.mark.usefixtures("_other_package")
def test_installed_packages_add_heuristics() -> None:
    found = installed_heuristics()
    assert {"example.org/Dict", "trafficdist.dev/PreferNextZone"} <= set(found)
    assert len(found) >= 4


@pytest.mark.usefixtures("_other_package")
@pytest.mark.parametrize("value", ["example.org/Missing", "example.org/Angry"])
def test_heuristic_that_cannot_be_loaded_is_named(value: str) -> None:
    with pytest.raises(HeuristicError, match=f"heuristic {value} .* cannot be loaded"):
        installed_heuristics()[value]
