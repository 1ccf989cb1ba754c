"""The time for which a proxy drops connections is reported as it was, and so is how soon it takes up a change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import endpoint, expect_no_loss, expect_traffic
from harness.judging.conclusion import UnmetError
from harness.judging.history import read
from harness.judging.judge import judge
from harness.judging.transitions import reaction_ms
from harness.judging.verdict import Verdict
from harness.model.requirements import MUST, Feature, Profile, Requirement
from harness.report import reactions
from mutants import MUTANTS, Mutant
from tests.conformance.trials import Trial

ONE = Requirement("KEP-1/one", "A sentence.", MUST, (Feature("Routing", Profile.SERVICE_PROXY, True, "."),), "KEP-1, A")
NEAR_MS = 10.0


def steady(cluster: Trial, path: Path) -> Any:
    """What is reported of a client whose Service moves from one pod to another and back."""
    with cluster.cluster(ONE.id) as mine:
        service = mine.create_service()
        a1, b1 = mine.run_servers(on=["a1", "b1"])
        mine.publish(service, [endpoint(a1)])
        expect_traffic(mine, service, {"a2": {a1}})
        try:
            with expect_no_loss(mine, service, from_=["a2"], allowed={a1, b1}):
                mine.publish(service, [endpoint(b1)])
                expect_traffic(mine, service, {"a2": {b1}})
        except UnmetError:
            pass
        facts = {"number": 0, "level": "MUST", "profile": "service-proxy", "core": True}
        mine.history.verdict(ONE.id, "call", Verdict.INCONCLUSIVE, observed=mine.judgement()["observed"], **facts)
        mine.history.took(ONE.id, "", 1.0)
    judged = judge(read(path).records, path)
    assert judged.contradictions == []
    (found,) = reactions.listed(judged)
    (client,) = found["clients"]
    return client


@pytest.mark.parametrize(
    ("name", "milliseconds"),
    [("forgets-before-it-learns", 50), ("forgets-for-200-ms", 200), ("forgets-for-a-second", 1000)],
)
def test_a_gap_is_reported_as_long_as_it_was(
    name: str, milliseconds: int, trial: Callable[[Mutant], Trial], tmp_path: Path
) -> None:
    client = steady(trial(MUTANTS[name]), tmp_path / "history-1.jsonl")
    assert client["longestGapMs"] == pytest.approx(milliseconds, abs=NEAR_MS)
    assert sum(client["lost"].values()) == pytest.approx(milliseconds / 4, rel=0.2)  # a question every 4 ms
    (reaction,) = client["reactions"]
    assert reaction["change"] == "write slice"
    assert reaction_ms(reaction) == pytest.approx(milliseconds, abs=3 * NEAR_MS)  # from when it was written


def test_a_proxy_without_a_gap_has_a_reaction(trial: Callable[[Mutant], Trial], tmp_path: Path) -> None:
    client = steady(trial(Mutant("none", "No fault.")), tmp_path / "history-1.jsonl")
    assert client["lost"] == {}
    assert (client["wrongSet"], len(client["reactions"])) == (0, 1)
