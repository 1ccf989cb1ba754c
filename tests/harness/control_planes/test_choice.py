"""Tests which options for the control plane can be combined, and the claims that follow from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.binaries import Cache
from harness.control_planes.choice import ControlPlaneChoice, choose
from harness.errors import UsageError
from harness.settings.options import resolve
from harness.settings.settings import Settings
from tests.harness.binaries.test_lookup import put


def _resolved(**given: object) -> Settings:
    return resolve({name.replace("_", "-"): value for name, value in given.items()}, environment={})


def test_reference_is_judged_by_default() -> None:
    assert choose("", "") == ControlPlaneChoice("embedded", "reference")
    assert not choose("", "").real
    assert _resolved().follow == "kep"


def test_binaries_bring_their_controller() -> None:
    assert choose("binaries:1.34", "") == ControlPlaneChoice("binaries", "kube-controller-manager", "1.34")
    assert choose("binaries:1.34.10", "kube-controller-manager:1.33").controller_version == "1.33"


@pytest.mark.parametrize(
    ("plane", "controller", "words"),
    [
        ("binaries", "", "binaries:VERSION"),
        ("embedded:1.34", "", "unknown control plane"),
        ("binaries:new", "", "expected one like 1.34.2"),
        ("", "mine", "unknown controller"),
        ("", "kube-controller-manager:", "unknown controller"),
        ("binaries:1.34", "reference", "so it cannot be combined"),
    ],
)
def test_incompatible_options_are_refused(plane: str, controller: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        choose(plane, controller)


def test_reference_of_another_release_does_not_go_with_binaries() -> None:
    with pytest.raises(UsageError, match=r"--kubernetes-version 1.30 .* has version 1.34"):
        _resolved(control_plane="binaries:1.34", kubernetes_version="1.30")


def test_mutant_does_not_go_with_real_components() -> None:
    with pytest.raises(UsageError, match="--mutant selects a fault in the reference"):
        _resolved(controller="kube-controller-manager", mutant="ignores-zone-hints")


def test_real_components_follow_what_was_released_and_are_judged_by_their_profiles() -> None:
    settings = _resolved(control_plane="binaries:1.34")
    assert (settings.follow, settings.kubernetes_version) == ("released", "1.34")
    assert settings.profile == ("endpointslice-controller", "api-server")
    assert {"TopologyMode", "OpenAPI"} <= set(settings.supported_features)
    assert settings.exempt_features == ("DeprecationWarnings",)


def test_report_names_the_exact_version_of_the_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAFFICDIST_CACHE", str(tmp_path))
    for component in ("kube-controller-manager", "kube-apiserver"):
        put(Cache(), component, "1.34.7")
    assert _resolved(controller="kube-controller-manager").version == "v1.34.7"
    assert _resolved(control_plane="binaries:1.34").version == "v1.34.7"
    assert _resolved(control_plane="binaries:1.33").version == "1.33"
    assert _resolved(control_plane="containers:1.34").version == "1.34"


def test_option_takes_precedence() -> None:
    settings = _resolved(control_plane="binaries:1.34", follow="kep", profile=["cluster"], project="ours")
    assert (settings.follow, settings.profile, settings.project) == ("kep", ("cluster",), "ours")


@pytest.mark.parametrize(
    ("version", "gates", "lacking"),
    [
        ("1.30", [], {"PreferClose", "PreferSameZone", "PreferSameNode"}),
        ("1.30", ["ServiceTrafficDistribution=true"], {"PreferSameZone", "PreferSameNode"}),
        ("1.33", ["PreferSameTrafficDistribution=true"], set()),
        ("1.34", ["PreferSameTrafficDistribution=false"], {"PreferSameZone", "PreferSameNode"}),
        ("1.37", [], set()),
    ],
)
def test_features_follow_from_version_and_gates(version: str, gates: list[str], lacking: set[str]) -> None:
    settings = _resolved(controller=f"kube-controller-manager:{version}", feature_gates=gates)
    values = {"PreferClose", "PreferSameZone", "PreferSameNode"}
    assert values & set(settings.exempt_features) == lacking
