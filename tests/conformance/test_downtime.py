"""Reports show how long connections were dropped, and how long a change took to take effect."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.judging.conclusion import UnmetError
from harness.judging.history import read
from harness.judging.judge import judge
from harness.judging.timeline import lossy_gaps
from harness.judging.transitions import reaction_ms
from harness.judging.verdict import Verdict
from harness.model.requirements import MUST, Feature, Profile, Requirement
from harness.report import reactions
from mutants import MUTANTS, Mutant, data_planes
from tests.conformance.mutant_trials import MutantTrial
from trafficdist import endpoint, expect_no_loss, expect_traffic

ONE = Requirement("KEP-1/one", "A sentence.", MUST, (Feature("Routing", Profile.SERVICE_PROXY, True, "."),), "KEP-1, A")
NEAR_MS = 10.0


def steady(cluster: MutantTrial, path: Path) -> Any:
    """Move a Service from one pod to another during steady traffic. Return the report about the client."""
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
        mine.history.write("took", test=ONE.id, parameters="", seconds=1.0, start=0.0)
    judged = judge(read(path).records, path)
    assert judged.contradictions == []
    (found,) = reactions.listed(reactions.by_case(judged))
    (client,) = found["clients"]
    return client


def unasked_ms(path: Path) -> float:
    """Return the time without probes at both ends of a client's longest gap, in ms. On an idle machine it is 8 ms."""
    (story,) = judge(read(path).records, path).stories.values()
    samples = next(each.flows["a2"] for each in story.windows if each.flows)
    begin, end = max(lossy_gaps(samples), key=lambda gap: gap[1] - gap[0])
    lost = [at for at, _ in samples if begin < at < end]
    return 1000 * (lost[0] - begin + end - lost[-1])


class FakeTime:
    """Replaces `time` in mutants. Measures in ms how long they sleep and how long the rules are missing."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.gone: list[float] = []

    def sleep(self, seconds: float) -> None:
        begin = time.monotonic()
        time.sleep(seconds)
        self.slept.append((time.monotonic() - begin) * 1000)

    def times(self, apply: Callable[..., None]) -> Callable[..., None]:
        """Wrap `apply`. If a call sleeps, record its duration as an upper bound of the time without rules."""

        def timed(*arguments: Any) -> None:
            begin, before = time.monotonic(), len(self.slept)
            apply(*arguments)
            if len(self.slept) > before:
                self.gone.append((time.monotonic() - begin) * 1000)

        return timed


@pytest.mark.parametrize(
    ("name", "milliseconds"),
    [("forgets-before-it-learns", 50), ("forgets-for-200-ms", 200), ("forgets-for-a-second", 1000)],
)
def test_a_gap_is_reported_as_long_as_it_was(
    name: str,
    milliseconds: int,
    trial: Callable[[Mutant], MutantTrial],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeTime()
    forgets = data_planes._DeletesBeforeAdding
    monkeypatch.setattr(data_planes, "time", clock)
    monkeypatch.setattr(forgets, "apply", clock.times(forgets.apply))
    client = steady(trial(MUTANTS[name]), tmp_path / "history-1.jsonl")
    assert min(clock.slept) >= milliseconds
    near = max(NEAR_MS, unasked_ms(tmp_path / "history-1.jsonl"))
    assert min(clock.slept) - 1 <= client["longestGapMs"] <= max(clock.gone) + near
    assert client["lost"]
    (reaction,) = client["reactions"]
    assert reaction["change"] == "write slice"
    assert reaction_ms(reaction) >= min(clock.slept)


def test_a_proxy_without_a_gap_has_a_reaction(trial: Callable[[Mutant], MutantTrial], tmp_path: Path) -> None:
    client = steady(trial(Mutant("none", "No fault.")), tmp_path / "history-1.jsonl")
    assert client["lost"] == {}
    assert (client["wrongSet"], len(client["reactions"])) == (0, 1)
