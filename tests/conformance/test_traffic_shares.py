"""A mutant with a rate in its description has this rate in every order of events and after every change.

Most tests compute shares from the kernel's maps after the changes. A few tests count packets.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judging.statistics import most
from harness.model.outcomes import Observation, Reached
from harness.scenario.service import same_zone
from harness.scenario.service_address import named, service_address
from mutants import BENIGN, MUTANTS, Mutant
from mutants.load_balancing import NOBODY
from mutants.overload import OWN_CHAIN
from reference.client import Object
from reference.proxy.changes import Element, EndpointElement, HairpinElement, IdentityElement, MarkElement
from reference.proxy.decision import NEWEST
from reference.proxy.ruleset import DecodedMark, ServiceAddress
from reference.proxy.state import State
from tests.conformance.mutant_trials import MutantTrial

WEB = ServiceAddress("10.96.0.1", "TCP", 80)
NODE = {"metadata": {"name": "a1", "labels": {"topology.kubernetes.io/zone": "a"}}, "spec": {}, "status": {}}
PODS = {"10.244.1.2": "a1", "10.244.1.3": "a1", "10.244.2.2": "a2", "10.244.3.2": "b1", "10.244.5.2": "c1"}

Shares = dict[str, Fraction]


def _key(element: Element) -> tuple[object, ...]:
    return element if isinstance(element, HairpinElement) else (*element[:-1], type(element))


class FakeKernel:
    """The maps of a fake kernel, to which the changes of a mutant's tables are applied."""

    def __init__(self, mutant: Mutant, *, keys: Sequence[str] = ()) -> None:
        behaviour = replace(NEWEST, topology_keys=bool(keys))
        self.state: State = mutant.proxy.keywords["state"]("a1", behaviour)  # type: ignore[attr-defined]
        self.elements: dict[tuple[object, ...], Element] = {}
        spec = {"clusterIP": WEB.address, "ports": [{"port": 80, "protocol": "TCP"}], "topologyKeys": [*keys]}
        self.tell("nodes", NODE)
        self.tell("services", {"metadata": {"namespace": "default", "name": "web"}, "spec": spec})

    def tell(self, resource: str, obj: Object) -> None:
        self.state.receive(resource, obj, deleted=False)
        self.state.compute()
        for changes in self.state.tables["IPv4"].take_changes():
            for each in (*changes.first_delete, *changes.later_delete):
                del self.elements[_key(each)]
            self.elements |= {_key(each): each for each in changes.first_add}

    def publish(self, addresses: Sequence[str], *, hinted: bool) -> None:
        """Write one slice with these endpoints in this order."""
        endpoints = [
            {"addresses": [each], "nodeName": PODS[each], "hints": {"forZones": [{"name": PODS[each][0]}]}}
            for each in addresses
        ]
        self.tell(
            "endpointslices",
            {
                "metadata": {"namespace": "default", "name": "web", "labels": {"kubernetes.io/service-name": "web"}},
                "addressType": "IPv4",
                "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
                "endpoints": endpoints if hinted else [{**each, "hints": {}} for each in endpoints],
            },
        )

    def mark(self) -> DecodedMark:
        return DecodedMark.of(self._find("services", WEB, MarkElement).mark)

    def shares(self) -> Shares:
        """Return each endpoint's share of the connections, which is its share of the slots."""
        mark = self.mark()
        slots = Counter(self._slot(each, sticky=bool(mark.seconds)) for each in range(mark.endpoints))
        return {address: Fraction(count, mark.endpoints) for address, count in slots.items()}

    def _slot(self, index: int, *, sticky: bool) -> str:
        number = self._find(WEB, index, IdentityElement).identity if sticky else index
        return self._find(WEB, number, EndpointElement).endpoint[0]

    def _find(self, *key: object) -> Element:
        return self.elements[key]


def in_zone(addresses: Sequence[str]) -> list[str]:
    return [each for each in addresses if PODS[each].startswith("a")]


def evenly(addresses: Sequence[str]) -> Shares:
    return {each: Fraction(1, len(addresses)) for each in addresses}


def leaking(addresses: Sequence[str]) -> Shares:
    """Return shares that send one connection in twenty to an endpoint of another zone, if there is one."""
    near, far = in_zone(addresses), sorted(set(addresses) - set(in_zone(addresses)))
    if not near or not far:
        return evenly(near or far)
    return {**{each: share * Fraction(19, 20) for each, share in evenly(near).items()}, far[0]: Fraction(1, 20)}


def weighted(addresses: Sequence[str], twice: Sequence[str]) -> Shares:
    weights = {each: 2 if each in twice else 1 for each in addresses}
    return {each: Fraction(weight, sum(weights.values())) for each, weight in weights.items()}


RATES: Mapping[str, tuple[bool, Callable[[Sequence[str]], Shares]]] = {
    "leaks-five-percent": (True, leaking),
    "one-endpoint-twice": (False, lambda each: weighted(each, sorted(each)[:1])),
    "one-endpoint-twice-with-topology-keys": (False, evenly),
    "favours-its-own-node": (False, lambda each: weighted(each, [one for one in each if PODS[one] == "a1"])),
    "starves-one-endpoint": (False, lambda each: evenly(sorted(each)[:-1] or each)),
    "refuses-half": (False, evenly),
    "refuses-three-quarters": (False, evenly),
    "weighted": (False, lambda each: weighted(each, sorted(each)[:1])),
    "backwards": (False, evenly),
}
"""Maps mutants to whether endpoints have hints, and to the function that computes the right shares."""

MADE = {name: (MUTANTS | BENIGN)[name] for name in RATES}


@pytest.mark.parametrize("name", RATES)
def test_mutant_has_its_rate_for_every_order_of_endpoints(name: str) -> None:
    hinted, shares = RATES[name]
    for order in itertools.permutations(PODS):
        kernel = FakeKernel(MADE[name])
        for count in range(1, len(order) + 1):  # endpoints are added one by one, or all at once
            kernel.publish(order[:count], hinted=hinted)
        assert kernel.shares() == shares(order)


@pytest.mark.parametrize("name", RATES)
@given(versions=st.lists(st.permutations(list(PODS)).flatmap(lambda each: st.integers(1, 5).map(lambda n: each[:n]))))
def test_a_mutant_has_its_rate_after_every_change(name: str, versions: list[list[str]]) -> None:
    hinted, shares = RATES[name]
    kernel = FakeKernel(MADE[name])
    for each in versions:
        kernel.publish(each, hinted=hinted)
        assert kernel.shares() == shares(each)


@pytest.mark.parametrize("keys", [["*"], ["example.com/rack", "*"]])
def test_mutant_prefers_one_endpoint_of_a_service_with_topology_keys(keys: Sequence[str]) -> None:
    kernel = FakeKernel(MUTANTS["one-endpoint-twice-with-topology-keys"], keys=keys)
    kernel.publish(list(PODS), hinted=False)
    assert kernel.shares() == weighted(list(PODS), sorted(PODS)[:1])


def test_shares_accumulate_with_each_new_endpoint() -> None:
    kernel = FakeKernel(MUTANTS["shares-pile-up"])
    first, second, third = list(PODS)[:3]
    for present in ([first], [first, second], [first, second, third]):
        kernel.publish(present, hinted=False)

    assert kernel.shares() == {first: Fraction(1, 2), second: Fraction(1, 3), third: Fraction(1, 6)}


@pytest.mark.parametrize(("name", "times"), [("refuses-half", 1), ("refuses-three-quarters", 3)])
def test_connections_are_refused_at_the_rate_in_the_name(name: str, times: int) -> None:
    kernel = FakeKernel(MUTANTS[name])
    kernel.publish(list(PODS), hinted=True)
    slots = Counter(kernel._find(WEB, each, EndpointElement).endpoint for each in range(kernel.mark().endpoints))
    near = in_zone(list(PODS))
    assert slots == {(each, 8080): 1 for each in near} | {(each, NOBODY): times for each in near}


@pytest.mark.parametrize("near", [1, 2, 3, 400, 819, 1200])
def test_the_leak_is_five_percent_whatever_the_number_of_endpoints(near: int) -> None:
    addresses = {f"10.244.{each >> 8}.{each & 255}": "a1" for each in range(near)} | {"10.245.0.1": "b1"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.PODS", addresses)
        kernel = FakeKernel(MUTANTS["leaks-five-percent"])
        kernel.publish(list(addresses), hinted=True)
        assert float(kernel.shares()["10.245.0.1"]) == pytest.approx(0.05, rel=0.001)


@pytest.mark.parametrize("order", list(itertools.permutations(["10.244.1.2", "10.244.3.2", "10.244.5.2"])))
def test_spilling_mutant_has_a_chain_with_the_zones_endpoint_first(order: Sequence[str]) -> None:
    kernel = FakeKernel(MUTANTS["spills-under-load"])
    for count in (3, 1, 2, 3):
        kernel.publish(order[:count], hinted=True)

    assert kernel.mark() == (2, 0, OWN_CHAIN)
    assert [kernel._slot(each, sticky=True) for each in (0, 1)] == ["10.244.1.2", "10.244.3.2"]


def test_spilling_mutant_does_not_affect_zones_with_two_endpoints() -> None:
    kernel = FakeKernel(MUTANTS["spills-under-load"])
    kernel.publish(["10.244.1.2", "10.244.2.2", "10.244.3.2"], hinted=True)

    assert kernel.mark() == (2, 0, 0)
    assert kernel.shares() == evenly(["10.244.1.2", "10.244.2.2"])


# On packets

SAMPLES, FALSE_ALARM = 2000, 1e-9
ON = ("a1", "a2", "b1", "c1")
COUNTED: Mapping[str, Mapping[str, Fraction]] = {
    "leaks-five-percent": {"a1": Fraction(19, 40), "a2": Fraction(19, 40), "b1": Fraction(1, 20)},
    "one-endpoint-twice": {"a1": Fraction(2, 3), "a2": Fraction(1, 3)},
    "favours-its-own-node": {"a1": Fraction(2, 3), "a2": Fraction(1, 3)},
    "spills-under-load": {"a1": Fraction(1)},  # without load
}


@pytest.mark.parametrize("name", COUNTED)
def test_packets_have_the_rate_after_endpoints_have_come_and_gone(
    name: str, trial: Callable[[Mutant], MutantTrial]
) -> None:
    expected = COUNTED[name]
    gone = {"a2"} if name == "spills-under-load" else set()
    with trial(MUTANTS[name]).cluster("rates") as cluster:
        service = cluster.create_service(traffic_distribution="PreferClose")
        pods = dict(zip(ON, cluster.run_servers(on=ON), strict=True))
        for present in (("c1", "b1", "a2", "a1"), ("a1", "c1"), ("b1", "c1", "a1", "a2")):
            cluster.publish(service, [same_zone(pods[each]) for each in present if each not in gone])
        cluster.settle()

        probes = service_address(cluster, service).path("a1", frozenset()).probes(SAMPLES)
        counts = Counter(_node(named(cluster, each)) for each in cluster.backend.booted.probe(probes, in_flight=8))

    assert counts.keys() == expected.keys()
    for node, share in expected.items():
        if share < 1:
            fewest = SAMPLES - most(SAMPLES, float(1 - share), FALSE_ALARM)
            assert fewest <= counts[node] <= most(SAMPLES, float(share), FALSE_ALARM)


def _node(observation: Observation) -> str:
    assert isinstance(observation, Reached), observation
    return observation.pod.partition("-")[0]
