"""Tests the basic questions before the first test, and the verdict on a scenario that rests on an unanswered one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.backends.implementation import reference
from harness.backends.netns import NetnsBackend
from harness.eventually import eventually
from harness.judging import history as histories
from harness.judging import judge
from harness.judging.conclusion import InconclusiveJudgementError, UnmetError, conclude
from harness.judging.history import History
from harness.judging.results import Case
from harness.judging.verdict import Judgement, SkipReason, Verdict
from harness.model.requirements import MUST, Feature, Profile, Requirement
from harness.model.topology import ONE_ZONE
from harness.plugin import basic_checks
from harness.plugin.basic_checks import BasicChecks, required_checks
from harness.plugin.judging import with_instruments_checked
from harness.run.plan import Plan
from harness.scenario.cluster import Cluster
from mutants import MUTANTS

CORE = Feature("Core", Profile.SERVICE_PROXY, True, "Core.")
TCP, UDP = "TCP cluster-ip IPv4", "UDP cluster-ip IPv4"
ABOUT = {
    TCP: {"KEP-1/plain"},
    UDP: {"KEP-1/plain"},
    "TCP node-port IPv6": {"KEP-1/node-port"},
    "TCP load-balancer IPv4": {"KEP-1/load-balancer"},
    "TCP external-ip IPv4": {"KEP-1/external-ip"},
    "EndpointSlices": {"KEP-1/slices"},
    "DNS": {"KEP-1/dns"},
}


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "run.jsonl") as opened:
        yield opened


@pytest.mark.parametrize(("mutant", "unanswered"), [("no-udp", {UDP}), ("does-nothing", {"EndpointSlices"})])
def test_questions_without_an_answer_are_known(
    mutant: str, unanswered: set[str], history: History, netns_allowed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(basic_checks, "WITHIN", 0.2)
    with NetnsBackend(ONE_ZONE, implementation=reference(MUTANTS[mutant])) as backend:
        cluster = Cluster(backend, "preliminary", history=history, test="")
        with closing(BasicChecks(cluster, ABOUT)) as asked:
            eventually(
                lambda: asked.unanswered(ABOUT).keys() == unanswered, describe=f"answers to all but {unanswered}"
            )
            assert asked.unanswered({"UDP node-port IPv4"}) == {}
        assert backend.api.list("services", "preliminary") == []


def test_questions_are_those_of_requirements_that_run() -> None:
    found = {
        name: Requirement(f"KEP-1/{name}", "", MUST, (CORE,), "", answers=answers)
        for name, answers in {
            "plain": ("TCP cluster-ip", "DNS"),
            "second": ("UDP cluster-ip",),
            "both": (TCP, "TCP cluster-ip IPv6"),
            "not-selected": ("TCP node-port",),
        }.items()
    }
    cases = [Case("", each.id, reason=SkipReason.DESELECTED * (name == "not-selected")) for name, each in found.items()]
    plan = Plan({each.id: each for each in found.values()}, cases, draws={"KEP-1/second": "family=second"})
    assert required_checks(plan, ("IPv4", "IPv6")) == {
        TCP: {"KEP-1/plain", "KEP-1/both"},
        "TCP cluster-ip IPv6": {"KEP-1/both"},
        "UDP cluster-ip IPv6": {"KEP-1/second"},
        "DNS": {"KEP-1/plain"},
    }


class _FailedScenario(Cluster):
    """A scenario that has failed, in a cluster without UDP."""

    def __init__(self, history: History, test: str, used: set[str]) -> None:
        self.history, self.record = history, type("Record", (), {"test": test, "used": used})()
        self._unanswered = lambda used: {UDP: ["KEP-1/plain"]} if UDP in used else {}

    def check_instruments(self) -> None:
        """Find nothing."""

    def fail(self) -> None:
        judgement = self.history.compare(self.record.test, "answer", expected="a1", observed="none")
        raise UnmetError(judgement, judgement.message)


def test_scenario_that_rests_on_an_unanswered_question_is_inconclusive(history: History, tmp_path: Path) -> None:
    failed = _FailedScenario(history, "KEP-1/hints", {TCP, UDP})
    with pytest.raises(InconclusiveJudgementError) as told, with_instruments_checked({"three_zones": failed}):
        failed.fail()
    judgement, text = told.value.judgement, str(told.value)
    assert judgement.message == f"rests on KEP-1/plain: even a plain Service gets no answer ({UDP})"
    assert text.endswith("\n\nanswer: expected 'a1', observed 'none'")
    facts = {"parameters": "", "level": "MUST", "profile": "service-proxy", "core": True, "number": 0}
    history.verdict("KEP-1/hints", "call", Verdict.INCONCLUSIVE, judgement.message, ended_by=judgement, **facts)
    history.close()
    (result,) = judge.judge(histories.read(tmp_path / "run.jsonl").records, tmp_path).derived()
    assert (result.verdict, result.worst.message) == (Verdict.INCONCLUSIVE, judgement.message)


@pytest.mark.parametrize(("test", "used"), [("KEP-1/plain", {UDP}), ("KEP-1/hints", {TCP})])
def test_failure_remains_if_the_scenario_asks_the_question_itself_or_rests_on_others(
    history: History, test: str, used: set[str]
) -> None:
    failed = _FailedScenario(history, test, used)
    with pytest.raises(UnmetError), with_instruments_checked({"three_zones": failed}):
        failed.fail()


def test_preliminary_decides_before_the_failure_that_it_explains() -> None:
    failed, rests = Judgement(Verdict.FAILED, "a"), Judgement(Verdict.INCONCLUSIVE, "b", preliminary=True)
    assert conclude([failed, rests], "call") == Judgement(Verdict.INCONCLUSIVE, "b")
    assert conclude([failed, Judgement(Verdict.INCONCLUSIVE, "b")], "call") == failed
