"""Tests what happens to a pod whose attachment is interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.model.topology import grid
from harness.netns.fabric import Network, PodIdentity
from harness.plugin.time_limit import TimeLimitError
from harness.recipes.pods import PodCommands, PodInterfaces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.netns.namespace import Namespace


def test_pod_whose_attachment_is_interrupted_is_detached(tmp_path: Path) -> None:
    """Otherwise the implementation keeps an address that the next pod gets."""
    ran: list[str] = []

    def run(where: str, what: str, command: tuple[str, ...], more: Mapping[str, str], within: float) -> None:
        ran.append(command[0])
        if command == ("attach",):
            raise TimeLimitError("Timeout")

    def show(node: str, namespace: Namespace, name: str) -> Path:
        (tmp_path / name).touch()
        return tmp_path / name

    with Network(grid("one", {"a": 1})) as network:
        interfaces = PodInterfaces(
            PodCommands(("attach",), ("detach",)), run, lambda name: network.nodes[name].namespace, show
        )
        network.wire_by(interfaces)
        with pytest.raises(TimeLimitError):
            network.add_pod("a1", of=PodIdentity("mine", "web", "1"))
    assert ran == ["attach", "detach"]
    assert not list(tmp_path.iterdir())
