"""Node-level topology of KEP-3015 (2022): the Services to which each approach applies, and their endpoints."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.client import Object
from reference.endpointslice.node_level import MissingNodesLimit, NodeLevel
from reference.endpointslice.plan import plan_service
from reference.features import Features
from reference.proxy.decision import Behaviour, Forward
from reference.proxy.state import State
from tests.reference.api_server_calls import patched
from tests.reference.endpointslice.objects import NODES, apply, endpoints, make_node, make_pod, make_service
from tests.reference.endpointslice.running_controller import RunningController

ON = Features((1, 32), {"NodeLevelTopology": True})
OFF = Features((1, 32))
KEY = "service.kubernetes.io/topology-aware-hints"
ASKING: Object = {"annotations": {KEY: "Node"}}
DAEMON_SET = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "dns", "uid": "1"}]


def pods_on(*names: str, owners: list[Object] | None = None, **fields: Any) -> list[Object]:
    pods = [make_pod(f"on-{node}", node, ips=[f"10.244.{n}.1"], **fields) for n, node in enumerate(names)]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = DAEMON_SET if owners is None else owners
    return pods


def hints(
    service: Object,
    pods: list[Object],
    approach: str,
    *,
    features: Features = ON,
    existing: Any = (),
    nodes: Any = NODES,
) -> dict[str, Object | None]:
    """Return the hints of each endpoint by node."""
    plan = plan_service(service, pods, nodes, existing, features=features, node_level=NodeLevel.parse(approach))
    return {each["nodeName"]: each.get("hints") for each in endpoints(apply(plan, existing))}


def own(node: str) -> Object:
    return {"forNodes": [{"name": node}]}


def test_only_a_service_that_requests_them_has_node_hints() -> None:
    assert hints(make_service(**ASKING), pods_on("a1"), "manual") == {"a1": own("a1")}
    assert hints(make_service(), pods_on(*NODES), "manual") == dict.fromkeys(NODES)
    assert hints(make_service(**ASKING), pods_on("a1"), "manual", features=OFF) == {"a1": None}


def test_unready_endpoints_have_no_node_hints() -> None:
    assert hints(make_service(**ASKING), pods_on("a1", ready=False), "manual") == {"a1": None}


def test_zone_hints_are_preserved() -> None:
    service = make_service(**ASKING, trafficDistribution="PreferClose")
    assert hints(service, pods_on("a1"), "manual") == {"a1": {"forZones": [{"name": "a"}], **own("a1")}}


@pytest.mark.parametrize(
    ("criteria", "nodes", "hinted"),
    [
        ("missing=0", 5, True),
        ("missing=0", 4, False),
        ("missing=1", 4, True),
        ("missing=1", 3, False),
        ("missing=20%", 4, True),
        ("missing=19%", 4, False),
        ("daemonset", 1, True),
    ],
)
def test_service_on_nearly_all_nodes_has_node_hints(criteria: str, nodes: int, hinted: bool) -> None:
    found = hints(make_service(), pods_on(*list(NODES)[:nodes]), f"automatic:{criteria}")
    assert found == {node: own(node) if hinted else None for node in list(NODES)[:nodes]}


def test_an_endpoint_that_is_not_ready_is_not_missing() -> None:
    pods = pods_on("a1", ready=False) + pods_on("a2")
    pods[1]["status"] = make_pod(ips=["10.244.9.1"])["status"]
    nodes = {"a1": NODES["a1"], "a2": NODES["a2"]}
    assert hints(make_service(), pods, "automatic:missing=0", nodes=nodes) == {"a1": None, "a2": own("a2")}


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "other", "uid": "2"}],
        [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "dns", "uid": "1"}],
        [{"apiVersion": "example.org/v1", "kind": "DaemonSet", "name": "dns", "uid": "1"}],
    ],
)
def test_one_pod_of_no_or_another_daemon_set_removes_node_hints(owners: list[Object]) -> None:
    pods = [*pods_on("a1"), make_pod("odd", "a2", ips=["10.244.9.1"])]
    pods[1]["metadata"]["ownerReferences"] = owners
    assert hints(make_service(), pods, "automatic:daemonset") == {"a1": None, "a2": None}
    assert hints(make_service(), pods[:1], "automatic:daemonset") == {"a1": own("a1")}


def test_all_criteria_must_be_met() -> None:
    assert hints(make_service(), pods_on(*NODES, owners=[]), "automatic") == dict.fromkeys(NODES)
    assert hints(make_service(), pods_on("a1"), "automatic") == {"a1": None}
    assert hints(make_service(), pods_on(*NODES), "automatic") == {node: own(node) for node in NODES}


@pytest.mark.parametrize(
    ("approach", "value", "hinted"),
    [
        ("opt-in", None, False),
        ("opt-in", "", False),
        ("opt-in", "Disabled", False),
        ("opt-in", "Node", True),
        ("opt-out", None, True),
        ("opt-out", "Disabled", False),
        ("opt-out", "Auto", False),
        ("automatic", "Disabled", True),
    ],
)
def test_annotation_enables_and_disables_node_hints(approach: str, value: str | None, hinted: bool) -> None:
    service = make_service(annotations={} if value is None else {KEY: value})
    assert hints(service, pods_on("a1"), f"{approach}:daemonset") == {"a1": own("a1") if hinted else None}
    assert hints(service, pods_on("a1", owners=[]), f"{approach}:daemonset") == {"a1": None}


@pytest.mark.parametrize("value", [None, "PreferClose"])
def test_a_second_sync_writes_nothing(value: str | None) -> None:
    service = make_service(**ASKING, **({"trafficDistribution": value} if value else {}))
    pods = pods_on("a1", "b1")
    first = plan_service(service, pods, NODES, features=ON, existing=())
    again = plan_service(service, pods, NODES, apply(first), features=ON)
    assert (again.is_empty, again.families["IPv4"].changed_slices) == (True, 0)


@pytest.mark.parametrize("features", [OFF, Features((1, 32), {"NodeLevelTopology": False})])
def test_removing_gate_or_annotation_removes_node_hints(features: Features) -> None:
    before = apply(plan_service(make_service(**ASKING), pods_on("a1"), NODES, (), features=ON))
    assert hints(make_service(**ASKING), pods_on("a1"), "manual", features=features, existing=before) == {"a1": None}
    assert hints(make_service(), pods_on("a1"), "manual", existing=before) == {"a1": None}


def test_node_hints_do_not_change_hints_by_cpu() -> None:
    service = make_service(annotations={KEY: "Auto"})
    nodes = {name: make_node(name) for name in ("a1", "b1")}
    existing: list[Object] = []
    for approach in ("automatic:daemonset", "automatic:daemonset", "automatic:missing=0"):
        plan = plan_service(
            service, pods_on("a1", "b1"), nodes, existing, features=ON, node_level=NodeLevel.parse(approach)
        )
        assert plan.is_empty is bool(existing)
        existing = apply(plan, existing)
    assert [each["hints"] for each in endpoints(existing)] == [
        {"forZones": [{"name": node[0]}], **own(node)} for node in nodes
    ]


def test_plan_states_whether_other_nodes_matter() -> None:
    def planned(approach: str) -> Any:
        config = NodeLevel.parse(approach)
        return plan_service(make_service(), pods_on("a1"), NODES, (), features=ON, node_level=config)

    assert [planned(each).counts_nodes for each in ("automatic", "automatic:daemonset", "manual")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("manual", NodeLevel("manual")),
        ("automatic", NodeLevel("automatic", MissingNodesLimit(10, percent=True), daemon_set=True)),
        ("opt-in:missing=2", NodeLevel("opt-in", MissingNodesLimit(2), daemon_set=False)),
        ("opt-out:daemonset", NodeLevel("opt-out", None, daemon_set=True)),
        ("automatic:missing=5%,daemonset", NodeLevel("automatic", MissingNodesLimit(5, percent=True), daemon_set=True)),
    ],
)
def test_configuration_is_read(text: str, meant: NodeLevel) -> None:
    assert NodeLevel.parse(text) == meant


@pytest.mark.parametrize(
    "text", ["", "auto", "automatic:", "automatic:missing", "automatic:missing=1,missing=2", "manual:daemonset"]
)
def test_malformed_configuration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected manual, automatic, opt-in or opt-out"):
        NodeLevel.parse(text)


def node_hinted(live: RunningController) -> list[str]:
    return sorted(
        name["name"] for each in endpoints(live.slices()) for name in each.get("hints", {}).get("forNodes", ())
    )


def test_hints_change_with_nodes_without_endpoints() -> None:
    features = Features(gates={"NodeLevelTopology": True})
    with RunningController(features=features, node_level=NodeLevel.parse("automatic:missing=1")) as live:
        live.create_service()
        for number, node in enumerate(("a1", "a2"), 1):
            live.run_pod(f"p{number}", node, ips=[f"10.244.1.{number}"])
        assert node_hinted(live) == ["a1", "a2"]
        live.api.create("nodes", "", make_node("b2"))
        assert node_hinted(live) == []
        live.api.delete("nodes", "", "b1")
        assert node_hinted(live) == ["a1", "a2"]


def test_hints_are_removed_when_a_pod_leaves_its_daemon_set() -> None:
    features = Features(gates={"NodeLevelTopology": True})
    with RunningController(features=features, node_level=NodeLevel.parse("automatic:daemonset")) as live:
        live.create_service()
        live.run_pod("p1")
        for owners, hinted in ((DAEMON_SET, ["a1"]), (None, [])):
            patched(live.api, "pods", "default", "p1", {"metadata": {"ownerReferences": owners}})
            assert node_hinted(live) == hinted


@given(
    st.lists(st.tuples(st.sampled_from(list(NODES)), st.booleans()), min_size=1, max_size=8),
    st.sampled_from([None, "PreferClose"]),
)
def test_nodes_without_endpoints_behave_as_without_node_hints(
    placed: list[tuple[str, bool]], value: str | None
) -> None:
    pods = [make_pod(f"p{n}", node, ips=[f"10.244.1.{n + 1}"], ready=ready) for n, (node, ready) in enumerate(placed)]
    field = {"trafficDistribution": value} if value else {}
    chosen, plain = (make_service(**asking, **field) for asking in (ASKING, {}))
    for node in NODES:
        mine = {f"10.244.1.{n + 1}" for n, (where, ready) in enumerate(placed) if ready and where == node}
        assert reached(chosen, pods, node) == (mine or reached(plain, pods, node))


def reached(service: Object, pods: list[Object], node: str) -> set[str]:
    """Return the addresses that a node uses, given the controller's slices.

    The gate is on in both proxy and controller.
    """
    state = State(node, Behaviour.of(ON))
    planned = plan_service(service, pods, NODES, (), features=ON)
    for resource, objects in (("nodes", [NODES[node]]), ("services", [service]), ("endpointslices", apply(planned))):
        for each in objects:
            state.receive(resource, each, deleted=False)
    state.compute()
    actions = [decision.cluster_ip for decision in state.decisions().values()]
    return {each.address for action in actions if isinstance(action, Forward) for each in action.endpoints}
