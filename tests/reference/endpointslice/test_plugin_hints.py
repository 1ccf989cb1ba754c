"""trafficDistribution values `<domain>/<name>`: the input of third-party heuristics, and valid and invalid results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from reference.endpointslice.hints import NoHints, PluginHeuristic, mechanism
from reference.features import Features
from reference.heuristics import Endpoint, Hints, Node
from tests.reference.api_server_calls import patched
from tests.reference.endpointslice.objects import (
    AUTO,
    NODES,
    RELEASED,
    endpoints,
    make_node,
    make_pod,
    make_service,
    plan,
    release,
)
from tests.reference.endpointslice.running_controller import RunningController

VALUE = "example.org/Test"
Answer = Callable[[Sequence[Endpoint], Mapping[str, Node]], Any]


class FakeHeuristic:
    """A heuristic that calls a function, and records its input."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[tuple[Sequence[Endpoint], Mapping[str, Node]]] = []

    def hints(self, endpoints: Sequence[Endpoint], nodes: Mapping[str, Node]) -> Mapping[Endpoint, Hints]:
        self.asked.append((endpoints, nodes))
        result: Mapping[Endpoint, Hints] = self._answer(endpoints, nodes)
        return result


def everything(to: Hints) -> Answer:
    return lambda endpoints, _: dict.fromkeys(endpoints, to)


def raising(error: Exception) -> Answer:
    def answer(*_: object) -> None:
        raise error

    return answer


STRANGER = Endpoint("192.0.2.1", "nobody", "", "")
service = make_service(trafficDistribution=VALUE)


def hints_by(answer: Answer, *pods: Any) -> list[object]:
    planned = plan(service, pods or [make_pod()], heuristics={VALUE: FakeHeuristic(answer)})
    return [each.get("hints") for each in endpoints(planned.create)]


def test_hints_of_the_heuristic_are_written() -> None:
    both = Hints(zones=["b", "c"], nodes=["a2"])
    assert hints_by(everything(both)) == [
        {"forZones": [{"name": "b"}, {"name": "c"}], "forNodes": [{"name": "a2"}]},
    ]
    assert hints_by(everything(Hints())) == [None]
    assert hints_by(lambda *_: {}) == [None]


def test_duplicate_zone_or_node_is_written_once() -> None:
    assert hints_by(everything(Hints(zones=["a", "b", "a"]))) == [{"forZones": [{"name": "a"}, {"name": "b"}]}]


def test_heuristic_receives_ready_endpoints_of_one_family() -> None:
    heuristic = FakeHeuristic(lambda *_: {})
    pods = [make_pod("p1", ips=["10.0.0.1"]), make_pod("p2", "b1", ips=["10.0.0.2"]), make_pod("p3", ready=False)]
    plan(service, pods, heuristics={VALUE: heuristic}, max_endpoints=1)
    ((seen, _),) = heuristic.asked
    assert set(seen) == {Endpoint("10.0.0.1", "p1", "a1", "a"), Endpoint("10.0.0.2", "p2", "b1", "b")}


def test_heuristic_receives_all_nodes_with_their_labels() -> None:
    heuristic = FakeHeuristic(lambda *_: {})
    nodes = {**NODES, "n1": make_node("n1", "", labels={"example.org/rack": "r1"})}
    plan(service, [make_pod()], heuristics={VALUE: heuristic}, nodes=nodes)
    ((_, seen),) = heuristic.asked
    assert seen["n1"] == Node("n1", "", {"example.org/rack": "r1"})
    assert (seen["a1"].zone, sorted(seen)) == ("a", sorted(nodes))


def test_heuristic_is_called_once_per_family() -> None:
    heuristic = FakeHeuristic(everything(Hints(zones=["b"])))
    dual = make_service(trafficDistribution=VALUE, ipFamilies=["IPv4", "IPv6"])
    planned = plan(dual, [make_pod(ips=["10.0.0.1", "fd00::1"])], heuristics={VALUE: heuristic})
    assert [each.address for (each,), _ in heuristic.asked] == ["10.0.0.1", "fd00::1"]
    assert all("hints" in each for each in endpoints(planned.create))


def test_heuristic_is_not_called_without_endpoints() -> None:
    heuristic = FakeHeuristic(raising(RuntimeError("no endpoints")))
    assert plan(service, [make_pod(ready=False)], heuristics={VALUE: heuristic}).failure == ""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (raising(RuntimeError("out of order")), "failed: RuntimeError('out of order')"),
        (lambda *_: None, "'NoneType' object has no attribute 'items'"),
        (lambda endpoints, _: dict.fromkeys(endpoints, "b"), "'str' object has no attribute 'zones'"),
        (everything(Hints(zones="abc")), "zones must be a sequence of non-empty names: 'abc'"),
        (everything(Hints(zones=[""])), "must be a sequence of non-empty names"),
        (everything(Hints(zones=["rack 7"])), "'rack 7' is not the name of a zone"),
        (everything(Hints(nodes=["A1"])), "'A1' is not the name of a node"),
        (everything(Hints(zones=list("abcdefghi"))), "9 zones exceed the limit of 8 for an endpoint"),
        (lambda *_: {STRANGER: Hints(zones=["a"])}, "endpoint that is not among its arguments: Endpoint(address='"),
    ],
)
def test_invalid_result_removes_hints_and_names_the_heuristic(answer: Answer, said: str) -> None:
    planned = plan(service, [make_pod()], heuristics={VALUE: FakeHeuristic(answer)})
    assert "hints" not in endpoints(planned.create)[0]
    assert planned.failure.startswith(f"heuristic {VALUE}")
    assert said in planned.failure


@pytest.mark.parametrize(
    ("features", "value", "expected"),
    [
        (Features(), VALUE, PluginHeuristic),
        (Features(), "example.org/Other", NoHints),
        (Features(), "Undomained", NoHints),
        (release("1.29"), VALUE, NoHints),
        (release("1.30"), VALUE, NoHints),
        (release("1.30", ServiceTrafficDistribution=True), VALUE, PluginHeuristic),
        (RELEASED, VALUE, NoHints),
    ],
)
def test_heuristics_are_for_values_with_a_domain_where_the_field_exists(
    features: Features, value: str, expected: type
) -> None:
    asking = make_service(trafficDistribution=value)
    assert type(mechanism(asking, features, {VALUE, "Undomained"})) is expected


def test_annotation_wins_over_a_heuristic() -> None:
    annotated = make_service(trafficDistribution=VALUE, annotations=AUTO)
    assert not isinstance(mechanism(annotated, Features(), {VALUE}), PluginHeuristic)


def test_broken_heuristic_causes_one_event_and_correct_endpoints() -> None:
    with RunningController(heuristics={VALUE: FakeHeuristic(raising(RuntimeError("out of order")))}) as live:
        live.create_service(trafficDistribution=VALUE)
        live.run_pod("p1")
        live.run_pod("p2", ips=["10.244.1.2"])
        assert live.pods_in_slices() == ["p1", "p2"]
        (failure,) = live.failures()
        assert f"heuristic {VALUE} failed: RuntimeError('out of order')" in failure


def test_invalid_hints_are_not_written_and_endpoints_are_correct() -> None:
    with RunningController(heuristics={VALUE: FakeHeuristic(everything(Hints(zones=["no zone"])))}) as live:
        live.create_service(trafficDistribution=VALUE)
        live.run_pod()
        assert live.pods_in_slices() == ["p1"]


def test_changed_node_labels_call_the_heuristic_again() -> None:
    by_rack = FakeHeuristic(
        lambda all_, nodes: dict.fromkeys(all_, Hints(zones=[nodes["b1"].labels.get("rack", "none")]))
    )
    with RunningController(heuristics={VALUE: by_rack}) as live:
        live.create_service(trafficDistribution=VALUE)
        live.run_pod()
        assert live.the_endpoint()["hints"] == {"forZones": [{"name": "none"}]}
        patched(live.api, "nodes", "", "b1", {"metadata": {"labels": {"rack": "r7"}}})
        assert live.the_endpoint()["hints"] == {"forZones": [{"name": "r7"}]}


def test_installed_heuristic_serves_a_service() -> None:
    with RunningController() as live:
        live.create_service(trafficDistribution="trafficdist.dev/PreferNextZone")
        live.run_pod("p1", "a1")
        assert live.the_endpoint()["hints"] == {"forZones": [{"name": "a"}, {"name": "b"}]}
        live.api.create("nodes", "", make_node("c1"))
        assert live.the_endpoint()["hints"]["forZones"][2] == {"name": "c"}


def test_unknown_domain_means_no_hints_and_no_failure() -> None:
    with RunningController() as live:
        live.create_service(trafficDistribution="example.org/fastest")
        live.run_pod()
        assert "hints" not in live.the_endpoint()
        assert live.failures() == []
