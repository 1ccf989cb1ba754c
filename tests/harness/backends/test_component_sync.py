"""Tests that a crashed or hung component is reported immediately, and that the wait starts again if it is replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness import eventually as eventually_module
from harness.backends import component_sync
from harness.backends.component_sync import AGAIN, ComponentSync
from harness.errors import EndedError, InconclusiveError, StarvedError
from harness.eventually import eventually
from harness.run_delay import RunDelay


class _ComponentStatuses:
    """Returns the given status of each component: idle, busy, or a text about its crash."""

    def __init__(self, **said: bool | str) -> None:
        self.said = said

    def __call__(self, name: str) -> bool:
        said = self.said[name]
        if isinstance(said, str):
            raise EndedError(said)
        return said


def test_crashed_component_is_reported_immediately() -> None:
    components = ComponentSync(
        ("controller", "proxy"), _ComponentStatuses(controller=True, proxy="proxy on a1 exited with 2")
    )
    with pytest.raises(EndedError, match="proxy on a1 exited with 2") as ended:
        components.settle(30)
    assert ended.value.component == "proxy"
    with pytest.raises(EndedError, match="exited with 2"):
        components.check()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record how long each wait may take, and end it at its first look."""
    limits: list[float] = []

    def at_once(check: Callable[[], Any], *, within: float, **rest: Any) -> Any:
        limits.append(within)
        return eventually(check, within=0, **rest)

    monkeypatch.setattr("harness.eventually.eventually", at_once)
    return limits


def test_component_timeout_is_waited_for_only_once(waits: list[float]) -> None:
    answers = _ComponentStatuses(controller=True, proxy=False)
    components = ComponentSync(("controller", "proxy"), answers)
    with pytest.raises(InconclusiveError, match=r"proxy has stopped processing changes: waited .* for proxy"):
        components.settle(5)
    with pytest.raises(EndedError, match="proxy has stopped processing"):
        components.settle(500)
    components.check()

    answers.said["proxy"] = True
    components.settle(500)
    answers.said["proxy"] = False
    with pytest.raises(EndedError, match=r"proxy has stopped processing"):
        components.settle(20)
    assert waits == [5, AGAIN, AGAIN, 20]


def test_first_late_component_is_reported(waits: list[float]) -> None:
    answers = _ComponentStatuses(controller=True, proxy=False)
    components = ComponentSync(("controller", "proxy"), answers)
    with pytest.raises(EndedError):
        components.settle(1)
    answers.said = {"controller": False, "proxy": False}
    with pytest.raises(EndedError, match="proxy has stopped processing") as again:
        components.settle(1)
    assert again.value.component == "proxy"


def test_replaced_component_gets_the_full_wait_again(waits: list[float]) -> None:
    components = ComponentSync(("proxy",), _ComponentStatuses(proxy=False))
    for _ in range(2):
        with pytest.raises(EndedError, match="waited"):
            components.settle(20)
        components.started()
    assert waits == [20, 20]


class _BusyMachine(RunDelay):
    """A machine on which the programs cannot run if it is busy."""

    busy = True

    def lost(self, since: float, until: float | None = None) -> float:
        return 1000.0 if self.busy else 0.0


def test_wait_after_one_without_a_processor_is_short_until_the_machine_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _BusyMachine()
    for module in (component_sync, eventually_module):
        monkeypatch.setattr(module, "RUN_DELAY", machine)
    monkeypatch.setattr(component_sync, "AGAIN", 0.05)
    answers = _ComponentStatuses(proxy=False)
    components = ComponentSync(("proxy",), answers)
    with pytest.raises(StarvedError, match=r"waited .* for proxy .*too busy"):
        components.settle(0.02)
    for _ in range(2):
        with pytest.raises(StarvedError, match=r"waited .* for proxy .*still too busy"):
            components.settle(10_000)
    machine.busy = False
    with pytest.raises(EndedError, match="proxy has stopped processing changes"):
        components.settle(0.2)
    answers.said["proxy"] = True
    components.settle(0.2)
    machine.busy, answers.said["proxy"] = True, False
    with pytest.raises(StarvedError, match=r"^waited((?!still).)*$"):
        components.settle(0.02)
