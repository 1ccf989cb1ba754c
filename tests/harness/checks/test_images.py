"""Tests that `doctor --try` runs the suite's pods on nodes with kubelets, and deletes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulator.kubelet.images import REGISTRY
from emulator.kubelet.kubelet import Kubelet
from harness.api.client import Api
from harness.backends.any_cluster import image_trial, pods
from harness.backends.netns import NetnsBackend
from harness.checks.check import Check, State
from harness.model.topology import THREE_ZONES
from tests.harness.guest.snapshot import differences, snapshot

NAMES = {node.name: node.name for node in THREE_ZONES.nodes}


@pytest.fixture(scope="module")
def api(netns_allowed: None) -> Iterator[Api]:
    with NetnsBackend() as backend, Kubelet(backend.kubeconfig(), backend.network):
        yield backend.api


@pytest.mark.parametrize(
    ("image", "state", "said"),
    [
        (pods.AGNHOST, State.OK, "runs on all 5 nodes"),
        ("nobody-has-this:1", State.UNUSABLE, "nobody-has-this:1 cannot be pulled"),
    ],
)
def test_images_are_tried_on_each_node(
    api: Api, monkeypatch: pytest.MonkeyPatch, image: str, state: State, said: str
) -> None:
    monkeypatch.setattr(pods, "AGNHOST", image)
    before = snapshot(api)
    check: Check[Api] = Check(
        "images", lambda to: image_trial.check(to, NAMES, REGISTRY, try_pods=True, say=lambda _: None)
    )
    (found,) = check.findings(api)
    assert (found.state, said in found.found) == (state, True), found.found
    assert differences(before, snapshot(api)) == []
