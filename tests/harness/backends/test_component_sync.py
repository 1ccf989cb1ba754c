"""Tests that a crashed or hung component is reported immediately, and that the wait starts again if it is replaced."""

from __future__ import annotations

import time

import pytest

from harness.backends.component_sync import ComponentSync
from harness.errors import EndedError, InconclusiveError
from tests.conformance.cases import time_scaled


class _Answers:
    """Returns the given status of each component: idle, busy, or a text about its crash."""

    def __init__(self, **said: bool | str) -> None:
        self.said = said

    def __call__(self, name: str) -> bool:
        said = self.said[name]
        if isinstance(said, str):
            raise EndedError(said)
        return said


def test_crashed_component_is_reported_immediately() -> None:
    components = ComponentSync(("controller", "proxy"), _Answers(controller=True, proxy="proxy on a1 exited with 2"))
    with pytest.raises(EndedError, match="proxy on a1 exited with 2") as ended:
        components.settle(30)
    assert ended.value.component == "proxy"
    with pytest.raises(EndedError, match="exited with 2"):
        components.check()


def test_component_timeout_is_waited_for_only_once() -> None:
    answers = _Answers(controller=True, proxy=False)
    components = ComponentSync(("controller", "proxy"), answers)
    with time_scaled(0.01):
        with pytest.raises(InconclusiveError, match=r"proxy has stopped processing changes: waited .* for proxy"):
            components.settle(5)
        begin = time.monotonic()
        with pytest.raises(EndedError, match="proxy has stopped processing"):
            components.settle(500)
        assert time.monotonic() - begin < 3
    components.check()

    answers.said["proxy"] = True
    components.settle()
    answers.said["proxy"] = False
    with time_scaled(0.01), pytest.raises(EndedError, match=r"waited 0\.[0-4]"):
        components.settle(20)


def test_first_late_component_is_reported() -> None:
    answers = _Answers(controller=True, proxy=False)
    components = ComponentSync(("controller", "proxy"), answers)
    with time_scaled(0.01):
        with pytest.raises(EndedError):
            components.settle(1)
        answers.said = {"controller": False, "proxy": False}
        with pytest.raises(EndedError, match="proxy has stopped processing") as again:
            components.settle(1)
    assert again.value.component == "proxy"


def test_replaced_component_gets_the_full_wait_again() -> None:
    components = ComponentSync(("proxy",), _Answers(proxy=False))
    with time_scaled(0.01):
        for within in ("0.0", "0.0"):
            with pytest.raises(EndedError, match=f"waited {within}"):
                components.settle(1)
            components.started()
