"""Tests that the error for an extra's missing packages lists the packages and the command that installs them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.errors import UnavailableError
from harness.model.package_extras import require


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("pyvenv.cfg", "pip install 'trafficdist[containers]'"),
        ("pipx_metadata.json", "pipx inject trafficdist no_such_package"),
        ("uv-receipt.toml", "uv pip install --python {prefix} no_such_package"),
    ],
)
def test_missing_package_is_named_with_the_command_of_its_installer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, command: str
) -> None:
    (tmp_path / file).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(UnavailableError) as raised:
        require("click", "no_such_package", extra="containers", feature="--control-plane containers")
    assert str(raised.value) == (
        "--control-plane containers needs the Python package no_such_package; "
        f"install it with `{command.format(prefix=tmp_path)}`"
    )


def test_installed_packages_raise_nothing() -> None:
    require("click", extra="containers", feature="--control-plane containers")
