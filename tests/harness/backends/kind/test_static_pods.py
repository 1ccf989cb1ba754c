"""Tests changes to the static pods of the control plane, starting from the manifests kubeadm 1.34 writes for kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.backends.kind.static_pods import (
    image_at,
    of_release,
    tag_of,
    with_start,
    without_election,
    without_slices,
)
from harness.errors import UnavailableError

WRITTEN = Path(__file__).parent / "kubeadm"


def pod(name: str) -> Any:
    return yaml.safe_load((WRITTEN / f"{name}.yaml").read_text(encoding="utf-8"))


def changes(before: Any, after: Any) -> tuple[set[str], set[str]]:
    """Return the arguments that were removed and those that were added."""
    old, new = (set(each["spec"]["containers"][0]["command"]) for each in (before, after))
    return old - new, new - old


@pytest.mark.parametrize("name", ["kube-apiserver", "kube-controller-manager"])
def test_another_release_changes_image_and_gates_and_nothing_else(name: str) -> None:
    before = pod(name)
    after = of_release(before, "v1.33.7", {"B": False, "A": True})
    assert after["spec"]["containers"][0]["image"] == f"registry.k8s.io/{name}:v1.33.7"
    assert changes(before, after) == (
        {"--feature-gates=PreferSameTrafficDistribution=true"}, {"--feature-gates=A=true,B=false"}
    )  # fmt: skip
    assert of_release(after, tag_of(before), {"PreferSameTrafficDistribution": True}) == before


def test_a_release_without_gates_has_no_flag_for_them() -> None:
    before = pod("kube-apiserver")
    after = of_release(before, "v1.34.0", {})
    assert changes(before, after) == ({"--feature-gates=PreferSameTrafficDistribution=true"}, set())


def test_each_start_creates_another_pod() -> None:
    first, second = (with_start(pod("kube-apiserver"), start) for start in (1, 2))
    assert first != second
    assert first["metadata"]["labels"] == {
        "component": "kube-apiserver", "tier": "control-plane", "trafficdist.dev/start": "1"
    }  # fmt: skip


def test_slice_controller_can_be_stopped_alone() -> None:
    before = pod("kube-controller-manager")
    assert changes(before, without_slices(before)) == (
        {"--controllers=*,bootstrapsigner,tokencleaner"},
        {"--controllers=*,bootstrapsigner,tokencleaner,-endpointslice"},
    )


def test_changed_controller_manager_does_not_wait_for_a_lease() -> None:
    before = pod("kube-controller-manager")
    assert changes(before, without_election(before)) == ({"--leader-elect=true"}, {"--leader-elect=false"})


def test_registry_port_is_not_taken_for_a_tag() -> None:
    assert image_at("registry.example:5000/kube-proxy:v1.34.0@sha256:00", "v1.30.1") == (
        "registry.example:5000/kube-proxy:v1.30.1"
    )
    with pytest.raises(UnavailableError, match="has no tag"):
        image_at("registry.example:5000/kube-proxy", "v1.30.1")
