"""Tests that the error for an extra's missing packages lists the packages and the command that installs them."""

from __future__ import annotations

import pytest

from harness.errors import UnavailableError
from harness.model.package_extras import require


def test_missing_package_is_named_with_its_remedy() -> None:
    with pytest.raises(
        UnavailableError,
        match=r"^--control-plane containers needs Python package no_such_package; "
        r"install it with `pip install 'trafficdist\[containers\]'`$",
    ):
        require("click", "no_such_package", extra="containers", feature="--control-plane containers")


def test_installed_packages_raise_nothing() -> None:
    require("click", extra="containers", feature="--control-plane containers")
