"""Whether nodes can run the suite's pods is tried on nodes with kubelets, and nothing is left of that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulator.kubelet.kubelet import Kubelet
from harness.api.client import Api
from harness.backends.any_cluster import pods
from harness.backends.any_cluster.node_names import Names
from harness.backends.netns import NetnsBackend
from harness.doctor import images
from harness.doctor.check import CheckState
from harness.model.topology import THREE_ZONES
from tests.harness.guest.snapshot import differences, snapshot

NAMES = Names({node.name: node.name for node in THREE_ZONES.nodes})


@pytest.fixture(scope="module")
def api(netns_allowed: None) -> Iterator[Api]:
    with NetnsBackend() as backend, Kubelet(backend.kubeconfig(), backend.network):
        yield backend.api


@pytest.mark.parametrize(
    ("image", "state", "said"),
    [
        (pods.AGNHOST, CheckState.OK, "runs on all 5 nodes"),
        ("nobody-has-this:1", CheckState.UNUSABLE, "nobody-has-this:1 cannot be pulled"),
    ],
)
def test_images_are_tried_on_each_node(
    api: Api, monkeypatch: pytest.MonkeyPatch, image: str, state: CheckState, said: str
) -> None:
    monkeypatch.setattr(pods, "AGNHOST", image)
    before = snapshot(api)
    found = images.check(api, NAMES, "", try_pods=True, say=lambda _: None)
    assert (found.state, said in found.found) == (state, True), found.found
    assert differences(before, snapshot(api)) == []
