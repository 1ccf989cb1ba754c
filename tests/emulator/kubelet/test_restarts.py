"""Containers restart with the delays and policies of the real kubelet."""

from __future__ import annotations

import pytest

from emulator.kubelet.running_container import RestartPolicy


def test_restart_delay_grows_from_zero_to_five_minutes() -> None:
    restarts = RestartPolicy("Always")
    assert [restarts.pause(1) for _ in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]


def test_container_that_ran_long_restarts_immediately() -> None:
    restarts = RestartPolicy("Always")
    assert [restarts.pause(ran) for ran in (1, 1, 1, 601, 1)] == [0, 10, 20, 0, 10]


@pytest.mark.parametrize(
    ("policy", "after_success", "after_failure"),
    [("Always", True, True), ("OnFailure", False, True), ("Never", False, False)],
)
def test_restart_policy_decides_whether_to_restart(policy: str, after_success: bool, after_failure: bool) -> None:
    restarts = RestartPolicy(policy)
    assert (restarts.again(0), restarts.again(1)) == (after_success, after_failure)
