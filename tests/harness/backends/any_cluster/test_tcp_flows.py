"""Tests that an attempt that may have reused an unanswered connection is no fault, and excuses no real fault."""

from __future__ import annotations

import pytest

from harness.backends.any_cluster.tcp_flows import TcpFlows


@pytest.fixture
def flows(monkeypatch: pytest.MonkeyPatch) -> TcpFlows[str]:
    """Return twenty unanswered attempts at 100 s."""
    made: TcpFlows[str] = TcpFlows()
    monkeypatch.setattr("time.monotonic", lambda: 105.0)
    made.note("a1", 100.0, 20)
    return made


@pytest.mark.parametrize(
    ("in_vain", "tries", "doubtful"),
    [(0, 51, 0), (1, 51, 1), (1, 1, 1), (20, 51, 20), (21, 51, 0), (2, 2, 0), (20, 20, 0)],
    ids=["all answered", "one", "the only one", "as many", "more than earlier ones", "both", "all"],
)
def test_few_unanswered_tries_may_have_reused_earlier_ones(
    flows: TcpFlows[str], in_vain: int, tries: int, doubtful: int
) -> None:
    flows.note("a1", 110.0, in_vain)
    assert flows.doubtful("a1", 110.0, tries) == doubtful
    flows.note("b1", 110.0, in_vain)
    assert flows.doubtful("b1", 110.0, tries) == 0, "of another client, or to another target"


def test_unanswered_tries_do_not_explain_concurrent_ones(flows: TcpFlows[str]) -> None:
    assert flows.doubtful("a1", 100.0, 51) == 0


@pytest.mark.parametrize(("at", "earlier"), [(224.0, 20), (226.0, 0)])
def test_connections_are_forgotten_after_two_minutes(flows: TcpFlows[str], at: float, earlier: int) -> None:
    assert flows.earlier("a1", at) == earlier
