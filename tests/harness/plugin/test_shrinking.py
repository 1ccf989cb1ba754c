"""A repetition counts only if it passes, or fails by its expectation. It ends with the time that is left."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import InconclusiveError
from harness.judging.conclusion import UnmetError
from harness.judging.verdict import Judgement, Verdict
from harness.plugin.shrinking import _fails


def unmet() -> None:
    raise UnmetError(Judgement(Verdict.FAILED, "wrong"), "wrong")


def inconclusive() -> None:
    raise InconclusiveError("too busy")


def endless() -> None:
    while True:
        time.sleep(0.01)


def item(run: Any) -> Any:
    state = SimpleNamespace(setup=lambda _: None, teardown_exact=lambda _: None)
    return SimpleNamespace(
        runtest=run,
        session=SimpleNamespace(_setupstate=state),
        config=SimpleNamespace(
            pluginmanager=SimpleNamespace(getplugin=lambda _: None), option=None, getini=lambda _: "0"
        ),
        get_closest_marker=lambda _: None,
        _initrequest=lambda: None,
        funcargs={},
    )


@pytest.mark.parametrize(
    ("run", "seconds", "told"),
    [(lambda: None, 60.0, False), (unmet, 60.0, True), (inconclusive, 60.0, None), (endless, 0.05, None)],
    ids=["passes", "unmet", "inconclusive", "endless"],
)
def test_repetition_tells_only_what_it_observed(run: Any, seconds: float, told: bool | None) -> None:
    assert _fails(item(run), None, seconds) is told
