"""Generated lifecycles of a Service: their constraints, their reproduction from a seed, and their shrinking."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.features import EXTERNAL_IPS, IPV6_SERVICES, LOAD_BALANCER, NODE_HINTS, SESSION_AFFINITY
from conformance.generated import lifecycles, shrinking, strategies, yaml_format
from conformance.generated.__main__ import GROUPS, corpus_text, main
from conformance.generated.lifecycles import Lifecycle, Slice, SliceEndpoint, State
from conformance.generated.runner import CORPUS, check, corpus
from harness.errors import UsageError
from harness.model.generation_settings import GenerationSettings
from tests.conformance.mutant_trials import SCENARIOS

DIGEST = "1b5d333b8e178874ce2d4a6467a391707b2714ddb321e477ab1a33487a5230c4"

READY = State(slices=(Slice("s0", (SliceEndpoint(0), SliceEndpoint(3))),))


@functools.cache
def made() -> list[Lifecycle]:
    """Return some lifecycles of each group."""
    return [each for group in GROUPS for each in strategies.batch(group, 1, of_seed=7)]


@pytest.mark.slow
def test_fixed_lives_are_generated_from_their_seed() -> None:
    assert CORPUS.read_text(encoding="utf-8") == corpus_text(1, 12)


def test_the_fixed_lives_are_as_they_were_written() -> None:
    assert hashlib.sha256(CORPUS.read_bytes()).hexdigest() == DIGEST
    assert [lifecycles.group_of(each) for each in corpus()] == [group for group in GROUPS for _ in range(12)]


def test_seed_gives_the_same_lives_regardless_of_loaded_modules() -> None:
    said = (
        "from conformance.generated import strategies, yaml_format; "
        "print(yaml_format.as_yaml(strategies.batch(('all', True), 3, of_seed=5)))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", f"{first}; {said}"],
            env=os.environ | {"PYTHONHASHSEED": number, "CI": ci},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number, ci, first in (
            ("1", "", "0"),
            ("2", "true", "import harness.scenario.cluster, reference.proxy.proxy"),
        )
    }
    assert len(told) == 1


def test_other_seeds_and_batches_give_other_lifecycles() -> None:
    some = [strategies.batch(("core", False), number, of_seed=of) for number, of in ((0, 1), (1, 1), (0, 2))]
    assert len({yaml_format.as_yaml(each) for each in some}) == 3


def test_lifecycles_belong_to_their_group_and_the_documents_decide_them() -> None:
    assert [each for each in made() if lifecycles.why_impossible(each)] == []
    assert {lifecycles.group_of(each) for each in made()} == {*GROUPS}


def test_lives_are_read_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "lifecycles.yaml").write_text(yaml_format.as_yaml(made()))
    assert yaml_format.read(str(tmp_path / "lifecycles.yaml")) == made()


@pytest.mark.parametrize("name", ["core", "all"])
def test_each_requirement_has_the_features_that_its_lives_need(name: str) -> None:
    more = {EXTERNAL_IPS, IPV6_SERVICES, LOAD_BALANCER, SESSION_AFFINITY}
    for hints in (False, True):
        features = SCENARIOS[f"GENERATED/{name}{'-hints' * hints}"].requirement.features
        assert (more <= {*features}) is (name == "all")
        assert (NODE_HINTS in features) is hints


STEPS: dict[str, Callable[[State, State], bool]] = {
    "a field of the Service": lambda was, now: (
        was.exists and now.exists and replace(was, slices=()) != replace(now, slices=())
    ),
    "the Service goes": lambda was, now: was.exists and not now.exists,
    "the Service comes": lambda was, now: now.exists and not was.exists,
    "a slice goes": lambda was, now: {each.name for each in was.slices} > {each.name for each in now.slices},
    "a slice comes": lambda was, now: {each.name for each in was.slices} < {each.name for each in now.slices},
    "nothing": lambda was, now: was == now,
    "zones of nodes": lambda was, now: was.zones != now.zones,
}


@pytest.mark.parametrize("step", STEPS)
def test_every_kind_of_step_is_made(step: str) -> None:
    pairs = [pair for each in made() for pair in itertools.pairwise(each.states)]
    assert any(STEPS[step](*pair) for pair in pairs)


@pytest.mark.parametrize(
    ("lifecycle", "why"),
    [
        (Lifecycle((READY,), client="external"), "no route to a cluster IP"),
        (Lifecycle((replace(READY, type="NodePort"),), address="node-port", family="IPv6"), "nodeport-addresses"),
        (Lifecycle((replace(READY, exists=False), READY)), "never answers would pass"),
        (Lifecycle((READY,), address="external-ip"), "never answers would pass"),
        (Lifecycle((READY, replace(READY, external="Local"))), "only for external addresses"),
        (Lifecycle((replace(READY, slices=(Slice("s0", (SliceEndpoint(0, zones=("a",)),)),)),)), "does not request"),
        (
            Lifecycle((replace(READY, slices=(Slice("s0", (SliceEndpoint(0), SliceEndpoint(1))),)),)),
            "must have the same port",
        ),
        (
            Lifecycle((replace(READY, slices=(*READY.slices, Slice("s1", (SliceEndpoint(0, condition="gone"),)))),)),
            "describe differently",
        ),
        (
            Lifecycle((replace(READY, type="NodePort", external="Local"),), address="node-port"),
            "in-cluster clients of node ports, external policy Local",
        ),
        (
            Lifecycle(
                (
                    replace(
                        READY,
                        distribution="PreferClose",
                        slices=(Slice("s0", (SliceEndpoint(0, zones=("a",)), SliceEndpoint(3, condition="starts"))),),
                    ),
                )
            ),
            "released Kubernetes differ",
        ),
    ],
)
def test_undecided_lifecycle_has_a_reason(lifecycle: Lifecycle, why: str) -> None:
    assert why in lifecycles.why_impossible(lifecycle)


_STARTS = SliceEndpoint(6, zones=("a",), condition="starts")


def test_only_usable_endpoints_may_answer_during_a_service_change() -> None:
    hinted = (Slice("s0", (SliceEndpoint(0, zones=("a",)), SliceEndpoint(3, zones=("b",)), _STARTS)),)
    near = State(distribution="PreferClose", slices=hinted)
    far = replace(near, slices=(Slice("s0", (SliceEndpoint(0), SliceEndpoint(3), _STARTS)),))
    lifecycle = Lifecycle((near, far))
    assert lifecycles.told(lifecycle, near, "a1") == {0}
    assert lifecycles.told(lifecycle, far, "a1") == {0, 3}
    assert lifecycles.meanwhile(lifecycle, near, far, "a1") == {0, 3}
    assert lifecycles.may_not_lose(lifecycle, near, far, "a1")
    local = replace(far, internal="Local")
    assert lifecycles.meanwhile(lifecycle, far, local, "a1") == {0, 3}
    assert lifecycles.meanwhile(lifecycle, local, local, "a1") == {0}
    assert not lifecycles.may_not_lose(lifecycle, far, local, "a1")


def _failing(rule: Callable[[Lifecycle], bool]) -> Callable[[Sequence[Lifecycle]], Collection[Lifecycle]]:
    return lambda some: [each for each in some if rule(each)]


def test_failing_life_is_shrunk_to_its_fault() -> None:
    def rule(lifecycle: Lifecycle) -> bool:
        """A proxy that never updates the internal policy."""
        return any(
            was.internal == "Cluster"
            and now.internal == "Local"
            and lifecycles.told(lifecycle, was, node) != lifecycles.told(lifecycle, now, node)
            for was, now in itertools.pairwise(lifecycle.states)
            for node in lifecycle.nodes
        )

    found = next(each for each in made() if rule(each) and len(each.states) > 2)
    smaller = shrinking.shrunk(found, _failing(rule), lambda: True)
    assert rule(smaller)
    assert not lifecycles.why_impossible(smaller)
    assert len(smaller.states) == 2
    assert len(smaller.nodes) == 1
    assert sum(len(each.members) for state in smaller.states for each in state.slices) <= 4
    assert len(yaml_format.as_yaml([smaller]).splitlines()) <= 10


def test_defaults_of_a_lifecycle_are_the_first_choices() -> None:
    assert [name for name in lifecycles.switches() if getattr(State(), name) != lifecycles.choices(name)[0]] == []


def test_shrinking_stops_when_time_is_up() -> None:
    assert shrinking.shrunk(made()[5], _failing(lambda _: True), lambda: False) is made()[5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "expected a list of 1 to 200 scenarios"),
        ("- 1", "scenario 1: a scenario: expected a mapping, not int"),
        ("- {proto: TCP}", "a scenario has 'proto'; allowed: protocol, family"),
        ("- {protocol: SCTP, states: []}", "protocol: 'SCTP' is not one of TCP, UDP"),
        ("- {states: [], nodes: [a1]}", "at least one state"),
        ("- {states: [{dual: 1}]}", "dual: '1' is not one of False, True"),
        ("- {states: [{slices: {S0: []}}]}", "slice 'S0': expected at most ten lower-case letters"),
        ("- {states: [{slices: {s0: [a1.1]}}]}", "endpoint 'a1.1': expected one of a1.0, b1.1"),
        ("- {states: [{slices: {s0: [a1.0 nodes=]}}]}", "endpoint 'a1.0 nodes=': expected"),
        ("- {states: [{slices: {s0: [a1.0]}}], nodes: [z9]}", "nodes: 'z9' is not one of a1, a2"),
        (
            "- {states: [{slices: {s0: [a1.0 gone]}}]}",
            "this scenario has no defined outcome: no endpoint may answer in the first state",
        ),
    ],
)
def test_error_in_a_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "lifecycles.yaml").write_text(text)
    with pytest.raises(UsageError) as refused:
        check(GenerationSettings(1, replay=str(tmp_path / "lifecycles.yaml")))
    assert "lifecycles.yaml" in str(refused.value)
    assert said in str(refused.value)


def test_fixed_lives_are_written_by_a_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = tmp_path / "corpus.yaml"
    monkeypatch.setattr("conformance.generated.__main__.CORPUS", written)
    monkeypatch.setattr("conformance.generated.__main__._BATCHES", 1)  # takes a fifth of the time
    assert main(["corpus", "1", "1"]) == 0
    assert written.read_text(encoding="utf-8").startswith("# Scenarios from seed 1, 1 per requirement;")
    assert [lifecycles.group_of(each) for each in yaml_format.read(str(written))] == [*GROUPS]
    assert main(["corpus", "one"]) == 4
