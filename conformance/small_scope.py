"""Compare a decision function with the oracle in all states of a small scope: up to three endpoints of one Service.

The requirements can send packets in only a few states, but a function that returns a decision can be called in all
states. Most faults cause a wrong decision in some state with few endpoints, so a function without a counterexample in
this scope is probably correct in larger states too.

The number of states is kept small in three ways:

- Names do not matter. Two nodes in two zones, and clients on these nodes and on a node without a zone, represent all
  others.
- Three endpoints have only `COMMON` values. All other values occur with at most two endpoints.
- The order of endpoints does not matter. Two endpoints with `COMMON` values, and two that share an address, are
  checked in both orders. All other sets are checked in one order, which differs between sets, so all orders occur.

This module has no side effects. `conformance/check_decisions.py` contains the command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import combinations_with_replacement, islice, permutations, product
from typing import Any, NamedTuple, get_args

from conformance import oracle
from conformance.oracle import (
    AddressKind,
    AllowedPods,
    ClientKind,
    NoReply,
    Policies,
    Policy,
    Reading,
    UndefinedOutcome,
)

NONE: frozenset[str] = frozenset()

ZONES = {"a1": "a", "a2": "a", "b1": "b", "n1": "", "": ""}
"""The zone of each node that endpoints are on. n1 has no zone label, and an endpoint may have no node name."""

PLACES = (("a1", "a"), ("b1", "b"), ("n1", ""))
"""The nodes of clients, with their zones."""

POLICIES: tuple[Policy, ...] = get_args(Policy)

_BOTH_POLICIES = list(product(POLICIES, repeat=2))
_STATES_OF_A_SET = len(PLACES) * len(_BOTH_POLICIES) * len(get_args(ClientKind)) * len(get_args(AddressKind))


@dataclass(frozen=True, slots=True)
class EndpointValues:
    """The values of an endpoint, except its address. A condition that is None is absent."""

    node: str = "a1"
    zone_hints: frozenset[str] = NONE
    node_hints: frozenset[str] = NONE
    ready: bool | None = True
    serving: bool | None = True
    terminating: bool | None = False

    @property
    def weight(self) -> int:
        """A measure of the difference from the default values. Simple counterexamples have small weights."""
        plain = EndpointValues()
        hints = len(self.zone_hints) + len(self.node_hints)
        conditions = (self.ready, self.serving, self.terminating) != (plain.ready, plain.serving, plain.terminating)
        return 2 * hints + 2 * conditions + (self.node != plain.node) + (self.serving is None)


class Endpoint(NamedTuple):
    """An endpoint of a state. Its zone is the zone of its node."""

    address: str
    node: str
    zone: str
    zone_hints: frozenset[str]
    node_hints: frozenset[str]
    ready: bool | None
    serving: bool | None
    terminating: bool | None


class State(NamedTuple):
    """The values that a decision depends on: the endpoints of a Service, its policies, and a client on a node.

    `node` and `zone` are those of the proxy that handles the client's packets. The client uses an address of kind `to`.
    """

    endpoints: tuple[Endpoint, ...]
    node: str
    zone: str
    client: ClientKind
    to: AddressKind
    internal: Policy
    external: Policy


Decide = Callable[[State], Any]
"""A function that returns the decision for a state: a set of addresses, "drop" or "reject"."""

DecideAll = Callable[[Sequence[State]], Sequence[Any]]
"""A function that returns a list with the decision, or `NOT_COVERED`, for each state."""

NOT_COVERED = object()
"""The decision for an address or a client that an implementation does not cover."""

BATCH = 250
"""The number of endpoint sets whose states are passed to a `DecideAll` in one call."""


class DecisionError(Exception):
    """A decision function or program failed instead of returning a decision."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A state in which the decision differs from the outcomes that the KEPs allow."""

    state: State
    right: oracle.Outcome
    decided: Any

    @property
    def weight(self) -> int:
        state, plain = self.state, (*PLACES[0], "pod", "cluster-ip", "Cluster", "Cluster")
        others = sum(one != other for one, other in zip(state[1:], plain, strict=True))
        return _weight(state.endpoints) + others


Group = tuple[object, Policy, Policy]
"""A group of similar counterexamples, which have the same expected rule (or the same `NoReply`) and the same
policies.
"""


@dataclass(frozen=True, slots=True)
class ScopeResult:
    """The result for many sets of endpoints: the number of states, and the simplest counterexample in each group.

    `undefined` is the number of states that were not judged: the KEPs leave the outcome open, or the implementation
    does not cover the address.
    """

    sets: int
    states: int = 0
    undefined: int = 0
    wrong: int = 0
    simplest: Mapping[Group, Counterexample] = field(default_factory=dict)

    @property
    def smallest(self) -> Counterexample | None:
        """The simplest counterexample of all groups, or None if there is none."""
        return min(self.simplest.values(), key=lambda each: each.weight, default=None)


@dataclass(frozen=True, slots=True)
class AllowedOutcomes:
    """The outcomes that count as correct where the KEPs or the claims of an implementation allow several.

    `reading` matters where a KEP and released Kubernetes differ (see `conformance/oracle.py`). If `node_hints` is
    false, the implementation does not claim the `NodeHints` feature. If `any_silence` is true, the implementation may
    drop or reject packets for which there is no endpoint.
    """

    reading: Reading = "released"
    node_hints: bool = True
    any_silence: bool = False

    def right(self, endpoints: tuple[Endpoint, ...], node: str, zone: str, policy: Policy) -> oracle.Outcome:
        """Return the outcome for clients on a node that use an address to which this policy applies."""
        if not self.node_hints:
            endpoints = tuple([each._replace(node_hints=NONE) for each in endpoints])
        return right(endpoints, node, zone, policy, self.reading)

    def allowed(self, outcome: oracle.Outcome) -> tuple[object, ...]:
        """Return the decisions that lead to an outcome."""
        silent = self.any_silence and isinstance(outcome, NoReply)
        return _allowed(NoReply.EITHER if silent else outcome)


READY, STARTING, LEAVING, GONE = (True, True, False), (False, False, False), (False, True, True), (False, False, True)

COMMON = [
    EndpointValues(node, frozenset(zones), frozenset(nodes), *conditions)
    for conditions in (READY, STARTING, LEAVING, GONE)
    for zones in ((), ("a",), ("b",))
    for nodes in ((), ("a1",), ("b1",))
    for node in ("a1", "b1")
]
"""The usual values of an endpoint. All sets of endpoints with these values are checked."""

_HINTS = [((), ()), (("a",), ("a1",))]
_OTHER_HINTS = [(("a", "b"), ()), ((), ("a1", "b1")), ((), ("n1",)), (("elsewhere",), ()), ((), ("elsewhere",))]
_UNSET = (True, False, None)

RARE = [
    each
    for each in dict.fromkeys(
        EndpointValues(node, frozenset(zones), frozenset(nodes), *conditions)
        for node, (zones, nodes), conditions in [
            *product(["a1"], _HINTS, product(_UNSET, repeat=3)),
            *product(["a1"], _OTHER_HINTS, [READY, LEAVING]),
            *product(["a2", "n1", ""], [((), ()), (("a",), ()), (("b",), ())], [READY, LEAVING]),
        ]
    )
    if each not in COMMON
]
"""Values that occur with at most two endpoints: absent conditions, unusual combinations of conditions, several hints,
hints for other nodes and zones, and no node name.
"""

ALL = [
    EndpointValues(node, frozenset(zones), frozenset(nodes), *conditions)
    for node in ZONES
    for zones in ((), ("a",), ("b",), ("a", "b"), ("elsewhere",))
    for nodes in ((), ("a1",), ("b1",), ("n1",), ("a1", "b1"), ("elsewhere",))
    for conditions in product(_UNSET, repeat=3)
]
"""Every combination of the values of one endpoint."""


@cache
def endpoint(kind: EndpointValues, number: int) -> Endpoint:
    """Return an endpoint with these values, and with an address that ends in this number."""
    conditions = (kind.ready, kind.serving, kind.terminating)
    return Endpoint(f"10.244.0.{number}", kind.node, ZONES[kind.node], kind.zone_hints, kind.node_hints, *conditions)


@lru_cache(1)
def _weight(endpoints: tuple[Endpoint, ...]) -> int:
    return sum(3 + values_of(each).weight for each in endpoints)


def values_of(each: Endpoint) -> EndpointValues:
    """Return the values of an endpoint without its address."""
    return EndpointValues(each.node, each.zone_hints, each.node_hints, each.ready, each.serving, each.terminating)


def scope(size: int) -> Iterator[tuple[str, Iterator[tuple[Endpoint, ...]]]]:
    """For each number of endpoints up to `size`, yield a title and the sets of endpoints."""
    for count in range(size + 1):
        yield f"{count}", sets(count)
        if count == 2:
            yield "2, one address", repeated_addresses()


def sets(count: int) -> Iterator[tuple[Endpoint, ...]]:
    """Yield the sets of `count` endpoints with different addresses, as the module docstring describes."""
    match count:
        case 0 | 1:
            yield from map(_numbered, product(ALL, repeat=count))
        case 2:
            rare = frozenset(RARE)
            yield from map(_numbered, product(COMMON, repeat=2))
            pairs = combinations_with_replacement([*COMMON, *RARE], 2)
            yield from _in_some_order(pair for pair in pairs if pair[1] in rare)
        case _:
            yield from _in_some_order(combinations_with_replacement(COMMON, count))


def repeated_addresses() -> Iterator[tuple[Endpoint, ...]]:
    """Yield all pairs of endpoints that share an address, in both orders.

    A network may give the address of a finished pod to a new pod while the slices still have both.
    """
    for one, other in product(COMMON, repeat=2):
        yield endpoint(one, 1), endpoint(other, 1)


def _in_some_order(chosen: Iterable[tuple[EndpointValues, ...]]) -> Iterator[tuple[Endpoint, ...]]:
    """Yield each set of endpoints in a single order. The order changes from one set to the next."""
    for number, kinds in enumerate(chosen):
        orders = list(permutations(kinds))
        yield _numbered(orders[number % len(orders)])


def _numbered(kinds: Sequence[EndpointValues]) -> tuple[Endpoint, ...]:
    return tuple([endpoint(each, number) for number, each in enumerate(kinds, 1)])


@cache
def questions(policies: Policies) -> list[tuple[ClientKind, AddressKind, Policy]]:
    """Return each kind of client and kind of address with the policy that applies, if the KEPs define one."""
    found = []
    for client, to in product(get_args(ClientKind), get_args(AddressKind)):
        policy = oracle.governing(oracle.Client(client, "a1", "a"), to, policies)
        if not isinstance(policy, UndefinedOutcome):
            found.append((client, to, policy))
    return found


def right(endpoints: tuple[Endpoint, ...], node: str, zone: str, policy: Policy, reading: Reading) -> oracle.Outcome:
    """Return the outcome for clients on a node that use an address to which this policy applies.

    For an address that occurs twice, the Kubernetes page EndpointSlices, section Duplicate endpoints, refers to
    kube-proxy's EndpointSliceCache: an endpoint that is not terminating replaces a terminating one. Otherwise a
    proxy may use either endpoint, so the outcome is defined only if it is the same for both.
    """
    client, policies = oracle.Client("pod", node, zone), Policies(internal=policy)
    found = [
        oracle.outcome(chosen, client, policies=policies, reading=reading) for chosen in _one_of_each_address(endpoints)
    ]
    if len({_allowed(each) for each in found}) == 1:
        return found[0]
    return UndefinedOutcome("an address of two endpoints, either of which may count")


@lru_cache(1)
def _one_of_each_address(endpoints: tuple[Endpoint, ...]) -> list[tuple[oracle.Endpoint, ...]]:
    judged = [_judged(each) for each in endpoints]
    if len({each.pod for each in judged}) == len(judged):
        return [tuple(judged)]
    staying = {each.pod for each in judged if not each.terminating}
    by_address: dict[str, list[oracle.Endpoint]] = {}
    for each in judged:
        if not each.terminating or each.pod not in staying:
            by_address.setdefault(each.pod, []).append(each)
    return list(product(*by_address.values()))


@cache
def _judged(each: Endpoint) -> oracle.Endpoint:
    conditions = (each.ready, each.serving, each.terminating)
    return oracle.Endpoint(each.address, each.node, each.zone_hints, each.node_hints, *conditions)


def _allowed(outcome: oracle.Outcome) -> tuple[object, ...]:
    """Return the decisions that lead to this outcome. The result is empty if the KEPs leave the outcome open."""
    match outcome:
        case AllowedPods(pods):
            return (pods,)
        case NoReply.DROPPED:
            return ("drop",)
        case NoReply.REFUSED:
            return ("reject",)
        case NoReply.EITHER:
            return ("drop", "reject")
    return ()


def check(
    decide: Decide, endpoint_sets: Iterable[tuple[Endpoint, ...]], demand: AllowedOutcomes = AllowedOutcomes()
) -> ScopeResult:
    """Compare the decisions of a function with the oracle in all states with these sets of endpoints.

    Raises `DecisionError`.
    """

    def decide_all(states: Sequence[State]) -> list[Any]:
        found = []
        for state in states:
            try:
                found.append(decide(state))
            except Exception as error:
                raise DecisionError(f"{type(error).__name__}: {error}, for {state}") from error
        return found

    return check_all(decide_all, endpoint_sets, demand)


def check_all(
    decide_all: DecideAll, endpoint_sets: Iterable[tuple[Endpoint, ...]], demand: AllowedOutcomes = AllowedOutcomes()
) -> ScopeResult:
    """Compare decisions with the oracle in all states of these endpoint sets. `decide_all` decides many at once."""
    number = states = wrong = 0
    simplest: dict[Group, Counterexample] = {}
    remaining = iter(endpoint_sets)
    while some := list(islice(remaining, BATCH)):
        number += len(some)
        asked = [each for endpoints in some for each in _asked(endpoints, demand)]
        decisions = decide_all([state for state, _, _ in asked])
        for (state, outcome, allowed), decided in zip(asked, decisions, strict=True):
            if decided is NOT_COVERED:
                continue
            states += 1
            if decided in allowed or (plain := _plain(decided)) in allowed:
                continue
            wrong += 1
            group = (outcome.by if isinstance(outcome, AllowedPods) else outcome, state.internal, state.external)
            known = simplest.get(group)
            if known is not None and _weight(state.endpoints) >= known.weight:
                continue  # most wrong states end here, because a fault usually shows in simple states first
            found = Counterexample(state, outcome, plain)
            if known is None or found.weight < known.weight:
                simplest[group] = found
    return ScopeResult(number, states, number * _STATES_OF_A_SET - states, wrong, simplest)


def _asked(
    endpoints: tuple[Endpoint, ...], demand: AllowedOutcomes
) -> Iterator[tuple[State, oracle.Outcome, tuple[object, ...]]]:
    """Yield the states with these endpoints, with the correct outcome and the decisions that lead to it."""
    for node, zone in PLACES:
        outcomes = {policy: demand.right(endpoints, node, zone, policy) for policy in POLICIES}
        allowed = {policy: demand.allowed(outcome) for policy, outcome in outcomes.items()}
        for internal, external in _BOTH_POLICIES:
            for client, to, policy in questions(Policies(internal, external)):
                if allowed[policy]:
                    state = State(endpoints, node, zone, client, to, internal, external)
                    yield state, outcomes[policy], allowed[policy]


def _plain(decided: Any) -> Any:
    """Convert a collection of addresses to a set, and return other decisions unchanged."""
    try:
        return decided if isinstance(decided, str) else frozenset(decided)
    except TypeError:
        return decided
