"""The grid's oracle agrees with every literal table of the suite, and has some general properties."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import oracle
from conformance.oracle import AllowedPods, Client, Endpoint, NoReply, Policies, UndefinedOutcome, outcome
from harness.judging.verdict import NoAnswer
from harness.model.outcomes import Refused, TimedOut
from harness.model.requirements import Level, Profile
from tests.conformance.expected_tables import ExpectedCell, tables
from tests.conformance.mutant_trials import SCENARIOS

PROXIES = sorted(
    name
    for name, each in SCENARIOS.items()
    if each.requirement.profile is Profile.SERVICE_PROXY
    if each.requirement.document
    not in {"INTERACTIONS", "CHANGES"}  # these use the oracle themselves; the stage does not support them
)

DOCUMENTS = {"KEP-2086", "KEP-4444", "KEP-3015", "KEP-2433", "KEP-1669", "SERVICE", "AFFINITY"}


def _asked(said: ExpectedCell, reading: oracle.Reading) -> oracle.Outcome:
    endpoints = [
        Endpoint(
            pod,
            each.node or "",
            zones=frozenset(each.hints.zones if each.hints else ()),
            nodes=frozenset(each.hints.nodes if each.hints else ()),
            ready=each.ready,
            serving=each.serving,
            terminating=each.terminating,
        )
        for pod, each in said.endpoints
    ]
    policies = Policies(
        said.spec.get("internalTrafficPolicy") or "Cluster", said.spec.get("externalTrafficPolicy") or "Cluster"
    )
    client = Client(said.client.kind, said.client.node, said.zone)
    return outcome(endpoints, client, to=cast("oracle.AddressKind", said.to), policies=policies, reading=reading)


def _agrees(told: oracle.Outcome, said: ExpectedCell) -> bool:
    match said.expected:
        case TimedOut():
            return told is NoReply.DROPPED
        case Refused():
            return told is NoReply.REFUSED
        case NoAnswer():
            return isinstance(told, NoReply)
    pods = {each.name for each in said.expected}
    return isinstance(told, AllowedPods) and (pods <= told.pods if said.kept else pods == told.pods)


@pytest.mark.parametrize("name", PROXIES)
def test_oracle_agrees_with_literal_tables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_, level = SCENARIOS[name].requirement.as_, SCENARIOS[name].requirement.level
    readings = [each for each in get_args(oracle.Reading) if as_ in ("", each)]
    for said in tables(SCENARIOS[name], monkeypatch):
        for reading in readings:
            told = _asked(said, reading)
            if level is Level.MUST or not isinstance(told, UndefinedOutcome):
                assert _agrees(told, said), (reading, said, told)


def test_oracle_is_compared_with_tables_of_every_document(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = {name: len(tables(SCENARIOS[name], monkeypatch)) for name in PROXIES}
    compared = {name for name, count in cells.items() if count}
    assert {SCENARIOS[name].requirement.document for name in compared} >= DOCUMENTS
    assert len(compared) >= 90
    assert sum(cells.values()) >= 550


NODES = {"a1": "a", "a2": "a", "b1": "b", "n1": ""}

some_nodes = st.frozensets(st.sampled_from(sorted(NODES)), max_size=2)
some_zones = st.frozensets(st.sampled_from(["a", "b", "c"]), max_size=2)
conditions = st.sampled_from([(True, None, None), (None, None, None), (False, False, False), (False, True, True)])


@st.composite
def endpoint_lists(draw: st.DrawFn) -> list[Endpoint]:
    count = draw(st.integers(0, 4))
    return [
        Endpoint(f"p{i}", draw(st.sampled_from(sorted(NODES))), draw(some_zones), draw(some_nodes), *draw(conditions))
        for i in range(count)
    ]


clients = st.builds(
    lambda kind, node: Client(kind, node, NODES[node]),
    st.sampled_from(get_args(oracle.ClientKind)),
    st.sampled_from(sorted(NODES)),
)
addresses = st.sampled_from(get_args(oracle.AddressKind))
policies = st.builds(Policies, *[st.sampled_from(get_args(oracle.Policy))] * 2)
readings = st.sampled_from(get_args(oracle.Reading))
questions = st.tuples(endpoint_lists(), clients, addresses, policies, readings)


def _tell(question: Any, **changes: Any) -> oracle.Outcome:
    names = ("endpoints", "client", "to", "policies", "reading")
    return outcome(**(dict(zip(names, question, strict=True)) | changes))


@given(questions)
def test_only_ready_endpoints_answer_while_any_is_ready(question: Any) -> None:
    endpoints, client, to, policies, _ = question
    told = _tell(question)
    if isinstance(told, AllowedPods):
        here = oracle.governing(client, to, policies) == "Local"
        asked = [each for each in endpoints if not here or each.node == client.node]
        ready = {each.pod for each in asked if oracle.is_ready(each)}
        assert told.pods
        leaving = {each.pod for each in endpoints if each.terminating}
        assert told.pods <= (leaving if told.by == "termination" else ready)
        assert not (told.by == "termination" and ready)


@given(questions)
def test_policy_cluster_answers_while_any_endpoint_is_ready(question: Any) -> None:
    told = _tell(question, policies=Policies())
    if not isinstance(told, UndefinedOutcome):
        assert isinstance(told, AllowedPods) or not any(map(oracle.is_ready, question[0]))


@given(questions)
def test_hints_only_remove_endpoints(question: Any) -> None:
    bare = [replace(each, zones=frozenset(), nodes=frozenset()) for each in question[0]]
    told, without = _tell(question), _tell(question, endpoints=bare)
    assert type(told) is type(without)
    if isinstance(told, AllowedPods) and isinstance(without, AllowedPods):
        assert told.pods <= without.pods


@given(questions)
def test_one_ready_endpoint_without_hints_disables_all_hints(question: Any) -> None:
    endpoints = [*question[0], Endpoint("bare", "b1")]
    told = _tell(question, endpoints=endpoints)
    assert not isinstance(told, AllowedPods) or told.by not in ("zone hints", "node hints")


@given(questions)
def test_order_of_endpoints_does_not_matter(question: Any) -> None:
    assert _tell(question) == _tell(question, endpoints=question[0][::-1])


@given(questions)
def test_readings_differ_only_about_endpoints_that_are_not_ready(question: Any) -> None:
    if all(map(oracle.is_ready, question[0])):
        assert _tell(question, reading="kep") == _tell(question, reading="released")


@pytest.mark.parametrize("kind", ["pod", "node"])
def test_oracle_reports_undecided_cases(kind: oracle.ClientKind) -> None:
    local = Policies(external="Local")
    assert isinstance(outcome([], Client(kind, "a1", "a"), to="node-port", policies=local), UndefinedOutcome)
    assert isinstance(outcome([], Client("external", "a1", "a")), UndefinedOutcome)
    unsaid = Endpoint("p", "a1", ready=False, terminating=True)
    assert isinstance(outcome([unsaid], Client(kind, "a1", "a")), UndefinedOutcome)


def test_oracle_imports_nothing_but_the_language() -> None:
    text = Path(oracle.__file__).read_text(encoding="utf-8")
    found = list(ast.walk(ast.parse(text)))
    imported = {each.module for each in found if isinstance(each, ast.ImportFrom)}
    imported |= {one.name for each in found if isinstance(each, ast.Import) for one in each.names}
    assert imported == {"__future__", "collections.abc", "dataclasses", "enum", "typing"}
