"""constraints.txt pins every package that an installation with all extras contains."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.package.environment import ROOT


def brought_by(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> Iterator[str]:
    """Yield the names of all installed direct and indirect dependencies of a distribution."""
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    for text in metadata.requires(name) or ():
        wanted = Requirement(text)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield canonicalize_name(wanted.name)
            yield from brought_by(wanted.name, frozenset(wanted.extras), seen)


def test_constraints_pin_what_is_installed_with_the_project() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {canonicalize_name(pin.partition("==")[0]) for pin in pins}
    assert set(brought_by("trafficdist", frozenset({"dev"}), set())) - pinned == set()
