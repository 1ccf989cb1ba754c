"""A component that exits, hangs or does not start in a block is a failure of the scenario that expects it to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from harness.errors import EndedError, StartError
from harness.model.release import CONTROLLER, PROXY
from harness.scenario.cluster import Cluster
from harness.scenario.eventual_state import expect_eventually, expect_running


class FakeCluster:
    """A cluster whose proxy has exited in these scenarios. Without a wait for components, `settled` is 0."""

    def __init__(self, ended: Mapping[str, str] | None = None) -> None:
        self.ended_before = lambda: ended or {}
        self.expects_running = False
        self.settled = 0
        self.converges_within = 0.01
        self.backend = self.restored = self

    def await_pods(self) -> None:
        pass

    def took(self, what: str, seconds: float) -> None:
        pass

    def settle(self) -> None:
        self.settled += 1

    def end_of(self, component: str) -> str:
        return ""

    def expect_equal(self, what: str, *, expected: Any, observed: Any, **_: Any) -> None:
        assert expected == observed, f"{what}: {observed}"


def cluster(ended: Mapping[str, str] | None = None) -> Cluster:
    return cast("Cluster", FakeCluster(ended))


@pytest.mark.parametrize("error", [EndedError("it has ended", PROXY), StartError("it has ended", exited=True)])
def test_component_that_ends_or_does_not_start_in_the_block_is_a_failure(error: Exception) -> None:
    with pytest.raises(AssertionError, match="the service-proxy: it has ended"), expect_running(cluster(), PROXY):
        raise error


def test_end_of_another_component_is_no_failure() -> None:
    with pytest.raises(EndedError, match="it has ended"), expect_running(cluster(), PROXY):
        raise EndedError("it has ended", CONTROLLER)


def test_end_in_an_earlier_scenario_is_a_failure_unless_only_the_block_counts() -> None:
    before = cluster({PROXY: "it ended long ago"})
    with pytest.raises(AssertionError, match="it ended long ago"), expect_running(before, PROXY):
        pytest.fail("the block must not run")
    with expect_running(before, PROXY, earlier=False):
        pass


@pytest.mark.parametrize("settled", [True, False])
def test_value_is_awaited_with_or_without_a_wait_for_components(settled: bool) -> None:
    asked = FakeCluster()
    expect_eventually(cast("Cluster", asked), "a value", lambda: "yes", expected="yes", settled=settled)
    assert asked.settled == settled
