"""The constraints files pin every package that an installation with all extras contains, with hashes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.package.wheel_environment import ROOT


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


FILES = ("constraints.txt", "constraints-extras.txt", "constraints-dev.txt", "constraints-fuzz.txt")


def pins(*names: str) -> dict[str, list[str]]:
    """Return the hashes of each package of these files. The order of the files is that of their installation."""
    found: dict[str, list[str]] = {}
    for name in names:
        for package in re.split(r"^(?=\S)", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            pinned = re.match(r"([\w.-]+)==\S+( ; [^\\]+)? \\\n", package)
            assert pinned, package
            assert canonicalize_name(pinned[1]) not in found, f"{pinned[1]} is in two files"
            found[canonicalize_name(pinned[1])] = re.findall(r"--hash=sha256:([0-9a-f]{64})", package)
    return found


def test_constraints_pin_what_is_installed_with_the_project() -> None:
    assert set(brought_by("trafficdist", frozenset({"dev"}), set())) - pins(*FILES).keys() == set()
    assert set(brought_by("trafficdist", frozenset({"all"}), set())) - pins(*FILES[:2]).keys() == set()
    assert set(brought_by("trafficdist", frozenset(), set())) - pins(*FILES[:1]).keys() == set()


def test_each_package_has_the_hashes_of_its_files() -> None:
    assert [name for name, hashes in pins(*FILES).items() if not hashes] == []


def test_package_is_built_without_packages_that_no_hash_pins() -> None:
    assert {"hatchling", "editables"} <= pins(*FILES[:1]).keys()
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "pip install" not in text.replace("PIP = $(BIN)/python -m pip install --disable", "")
    commands = re.findall(r"\$\((?:PIP|HASHES)\) (-.*)", text)
    assert all(each.startswith(("--require-hashes", "-r ", "--no-deps --no-build-isolation")) for each in commands)
    assert len(commands) == 5
