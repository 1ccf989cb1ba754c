"""The small scope has no counterexample for the reference, and has one for each mutant that decides wrongly in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner, Result

from conformance import oracle, small_scope
from conformance.check_decisions import describe
from conformance.small_scope import (
    ALL,
    COMMON,
    PLACES,
    POLICIES,
    RARE,
    Decide,
    Endpoint,
    ScopeResult,
    State,
    check,
    endpoint,
    questions,
    repeated_addresses,
    right,
    sets,
)
from harness.commands.main import main
from harness.judging.exit_codes import ExitCode
from mutants import MUTANTS
from reference.proxy.plain_values import answering, decide_plain_values

ONE = [
    "decides-as-on-another-node",
    "drops-where-none-is-ready",
    "drops-where-reject-is-due",
    "drops-without-hinted-endpoint",
    "drops-without-zone-label",
    "external-local-for-all-at-load-balancers",
    "external-local-restricts-clients-inside",
    "external-local-restricts-cluster-ip",
    "hints-on-top-of-local",
    "hints-on-top-of-local-at-load-balancers",
    "ignores-internal-local",
    "internal-local-at-external-ips",
    "internal-local-falls-back",
    "internal-local-restricts-external",
    "no-hints-mean-nobody",
    "no-terminating-fallback",
    "node-hints-on-top-of-local",
    "node-level-narrows-local",
    "node-level-softens-local",
    "node-level-without-fallback",
    "rejects-where-drop-is-due",
    "terminating-means-serving",
    "unready-as-last-resort",
    "uses-unready-hinted-endpoint",
]
"""Mutants that decide wrongly about at most one endpoint."""

TWO = [
    "accepts-partial-node-hints",
    "accepts-partial-zone-hints",
    "external-addresses-ignore-hints",
    "hints-need-the-annotation",
    "hints-on-terminating-endpoints",
    "ignores-node-hints",
    "ignores-zone-hints",
    "mixes-terminating-with-ready",
    "no-hints-inside-at-external-ips",
    "node-as-zone",
    "node-hints-need-a-zone",
    "node-level-needs-both-policies",
    "skips-zone-tier",
    "starves-one-endpoint",
    "unhinted-endpoint-joins-every-zone",
    "zone-before-node",
]
"""Mutants that decide wrongly about two endpoints, but not about one."""

ADDRESS = [
    "first-endpoint-of-an-address-counts",
    "last-endpoint-of-an-address-counts",
    "local-endpoint-of-an-address-counts",
]
"""Mutants that decide wrongly only about two endpoints with one address."""

THREE = ["terminating-endpoint-breaks-hints", "unready-endpoint-breaks-hints"]
"""Mutants that decide wrongly about three endpoints, but not about two."""

SHUFFLED = 7  # every seventh set is enough where a test repeats what another test checks in full


def _mutant(name: str) -> Decide:
    proxy: Any = MUTANTS[name].proxy
    return answering(proxy.keywords["state"].keywords["decide"])


def _first(decide: Decide, chosen: Iterable[tuple[Endpoint, ...]]) -> ScopeResult | None:
    """Return the result for the first set of endpoints with a counterexample."""
    return next((found for each in chosen if (found := check(decide, [each])).wrong), None)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_reference_has_no_counterexample(count: int) -> None:
    found = check(decide_plain_values, sets(count))
    assert found.smallest is None
    assert found.states > found.undefined


def test_reference_has_no_counterexample_with_one_address() -> None:
    assert check(decide_plain_values, repeated_addresses()).smallest is None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_reference_has_no_counterexample_with_three_endpoints() -> None:
    found = check(decide_plain_values, sets(3))
    assert found.smallest is None
    assert found.states > 7_000_000


@pytest.mark.parametrize("name", ONE)
def test_mutant_is_wrong_about_at_most_one_endpoint(name: str) -> None:
    assert _first(_mutant(name), [*sets(0), *sets(1)])


@pytest.mark.parametrize("name", TWO)
def test_mutant_is_wrong_about_two_endpoints(name: str) -> None:
    assert _first(_mutant(name), sets(2))


@pytest.mark.parametrize("name", ADDRESS)
def test_mutant_is_wrong_about_two_endpoints_with_one_address(name: str) -> None:
    assert _first(_mutant(name), repeated_addresses())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", THREE)
def test_mutant_is_wrong_about_three_endpoints(name: str) -> None:
    assert _first(_mutant(name), sets(3))


# The scope


def test_each_value_occurs_with_one_endpoint() -> None:
    assert len({*ALL}) == len(ALL) == 5 * 5 * 6 * 27
    assert {*COMMON, *RARE} <= {*ALL}
    assert not {*COMMON} & {*RARE}


def test_two_common_endpoints_occur_in_both_orders() -> None:
    found = {*sets(2)}
    assert {(endpoint(one, 1), endpoint(other, 2)) for one, other in product(COMMON, repeat=2)} <= found


def test_three_endpoints_occur_in_each_order() -> None:
    number = {kind: position for position, kind in enumerate(COMMON)}
    seen = set()
    for each in sets(3):
        order = [number[small_scope.values_of(one)] for one in each]
        if len({*order}) == 3:
            seen.add(tuple(sorted(range(3), key=order.__getitem__)))
        if len(seen) == 6:
            break
    assert seen == {*permutations(range(3))}


def test_oracle_answers_independently_of_the_order() -> None:
    for number, endpoints in enumerate(sets(3)):
        if number % 997 == 0:
            for (node, zone), policy in product(PLACES, POLICIES):
                found = {right(order, node, zone, policy, "released") for order in permutations(endpoints)}
                assert len(found) == 1


def test_outcome_depends_on_client_and_address_by_the_policy_alone() -> None:
    """The check asks the oracle once for each policy. The oracle gives the same answer for each client and address."""
    for endpoints in [*sets(0), *list(sets(1))[::SHUFFLED]]:
        judged = [oracle.Endpoint(e.address, e.node, e.zone_hints, e.node_hints, *e[-3:]) for e in endpoints]
        for (node, zone), internal, external in product(PLACES, POLICIES, POLICIES):
            policies = oracle.Policies(internal, external)
            for client, to, policy in questions(policies):
                told = oracle.outcome(
                    judged, oracle.Client(client, node, zone), to=to, policies=policies, reading="released"
                )
                assert told == right(endpoints, node, zone, policy, "released")


def test_only_what_the_documents_leave_open_is_not_asked() -> None:
    asked = {(i, e, c, to) for i, e in product(POLICIES, POLICIES) for c, to, _ in questions(oracle.Policies(i, e))}
    every = {*product(POLICIES, POLICIES, get_args(oracle.ClientKind), get_args(oracle.AddressKind))}
    open_ = {each for each in every if each[2:] == ("external", "cluster-ip")}
    open_ |= {each for each in every if "Local" in each[:2] and each[2] != "external" and each[3] == "node-port"}
    assert asked == every - open_


def test_a_new_pod_with_the_address_of_an_ended_pod_gets_all_connections() -> None:
    ended = small_scope.EndpointValues("a1", ready=False, serving=False, terminating=True)
    new = small_scope.EndpointValues("b1")
    for order in permutations([endpoint(ended, 1), endpoint(new, 1)]):
        for node, zone in PLACES:
            told = right(order, node, zone, "Cluster", "released")
            assert isinstance(told, oracle.AllowedPods)
            assert told.pods == {"10.244.0.1"}


def test_an_unready_pod_replaces_a_terminating_one_of_its_address() -> None:
    leaving = small_scope.EndpointValues("a1", ready=False, serving=True, terminating=True)
    starting = small_scope.EndpointValues("b1", ready=False, serving=False)
    for order in permutations([endpoint(leaving, 1), endpoint(starting, 1)]):
        assert right(order, "a1", "a", "Cluster", "released") is oracle.NoReply.REFUSED


def test_which_of_two_pods_that_stay_has_an_address_is_open_if_it_matters() -> None:
    here, there = endpoint(small_scope.EndpointValues("a1"), 1), endpoint(small_scope.EndpointValues("b1"), 1)
    assert isinstance(right((here, there), "a1", "a", "Local", "released"), oracle.UndefinedOutcome)
    assert isinstance(right((here, there), "a1", "a", "Cluster", "released"), oracle.AllowedPods)


# The command


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check-decisions", *arguments])


def decide_always_one(state: State) -> Sequence[str]:
    """Decide for the first endpoint, ready or not."""
    return [each.address for each in state.endpoints[:1]]


def decide_by_hand(state: State) -> set[str] | str:
    """Decide rightly about at most one ready endpoint."""
    if not state.endpoints:
        return "reject"
    [one] = state.endpoints
    usable = one.ready is not False or (one.terminating and one.serving)
    local = state.internal if state.to == "cluster-ip" else state.external if state.client == "external" else "Cluster"
    elsewhere = local == "Local" and one.node != state.node
    return {one.address} if usable and not elsewhere else "drop" if elsewhere else "reject"


def test_function_of_the_page_is_right() -> None:
    page = Path(__file__).parents[2] / "docs/small-scope.md"
    [text] = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    found: dict[str, Any] = {}
    exec(text, found)
    chosen = [*sets(0), *list(sets(1))[::SHUFFLED], *list(sets(2))[::SHUFFLED]]
    chosen += list(repeated_addresses())[::SHUFFLED]
    assert check(found["decide"], chosen).smallest is None


def decide_nothing(state: State) -> None:
    raise ZeroDivisionError("no division")


def test_command_states_how_much_was_checked() -> None:
    done = _run("--endpoints", "1")
    assert done.exit_code == ExitCode.PASSED
    assert "444,714 states in" in done.output
    assert done.output.endswith("s: no counterexample up to 1 endpoint\n")


def test_command_checks_another_implementation() -> None:
    assert _run("--endpoints", "1", "--decisions", f"{__name__}:decide_by_hand").exit_code == ExitCode.PASSED


def test_command_shows_the_simplest_counterexample() -> None:
    done = _run("--decisions", f"{__name__}:decide_always_one")
    assert done.exit_code == ExitCode.FAILED
    shown = done.output[done.output.index("The simplest") :]
    assert shown == (
        "The simplest counterexample:\n\n"
        "  client           a pod on node a1, zone a\n"
        "  address          cluster IP\n"
        "  internal policy  Cluster\n"
        "  external policy  Cluster\n"
        "  expected         reject\n"
        "  decided          no endpoint\n\n"
        "  no endpoints\n"
    )


def test_counterexample_shows_each_endpoint() -> None:
    found = _first(_mutant("accepts-partial-zone-hints"), sets(2))
    assert found is not None
    assert found.smallest is not None
    text = describe(found.smallest)
    assert "expected         10.244.0.1, 10.244.0.2 (rule: all endpoints)" in text
    assert text.count("true   true     false") == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unknown", "--decisions unknown: expected MODULE:FUNCTION, or one of reference"),
        ("no_such_module:decide", "No module named 'no_such_module'"),
        ("os:no_such_function", "has no attribute 'no_such_function'"),
        ("os:sep", "is not a function"),
        (f"{__name__}:decide_nothing", "ZeroDivisionError: no division, for State("),
    ],
)
def test_command_states_what_is_wrong_with_a_function(name: str, said: str) -> None:
    done = _run("--decisions", name)
    assert done.exit_code == ExitCode.USAGE
    assert said in done.output


def test_modules_of_the_working_folder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_small_proxy.py").write_text("def decide(state):\n    return 'reject'\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")  # restores the path afterwards
    assert _run("--decisions", "my_small_proxy:decide", "--endpoints", "0").exit_code == ExitCode.PASSED
