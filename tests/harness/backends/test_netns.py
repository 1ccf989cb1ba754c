"""An embedded cluster has settled when each component has worked on what those before it wrote."""

from __future__ import annotations

from typing import Any

from harness.backends.netns import NetnsBackend


class _Component:
    """Notes when it is asked, and is idle at its last answer."""

    def __init__(self, name: str, answers: list[bool], asked: list[str]) -> None:
        self._name, self._answers, self._asked = name, answers, asked

    def synced(self) -> bool:
        self._asked.append(self._name)
        return self._answers.pop(0)


def test_dns_is_asked_when_the_controller_whose_slices_it_reads_is_idle() -> None:
    asked: list[str] = []
    backend: Any = NetnsBackend()
    backend.control_plane = _Component("controller", [False, True], asked)
    backend.proxy = _Component("proxy", [True], asked)
    backend._dns = (_Component("dns", [True], asked), None)
    backend.settle()
    assert asked == ["controller", "controller", "proxy", "dns"]
