"""The slices of a Service: their number, names, labels and owners."""

from __future__ import annotations

from typing import Any

import pytest

from reference.client import Object
from reference.endpointslice.endpoints import EndpointCache
from reference.endpointslice.hints import NoHints
from reference.endpointslice.plan import plan_deleted_service
from tests.reference.endpointslice.objects import (
    addresses,
    apply,
    endpoints,
    make_pod,
    make_pods,
    make_service,
    plan,
    slices_for,
)

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"
RESERVED_LABELS = {SERVICE_NAME: "web", MANAGED_BY: "endpointslice-controller.k8s.io"}


def test_new_slice_names_its_service_as_label_owner_and_name_prefix() -> None:
    (planned,) = plan(make_service(), [make_pod()]).create
    assert planned["metadata"] == {
        "generateName": "web-",
        "namespace": "default",
        "labels": RESERVED_LABELS,
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "name": "web",
                "uid": "uid-of-web",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert (planned["apiVersion"], planned["kind"], planned["addressType"]) == (
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "IPv4",
    )


def test_labels_of_the_service_are_copied_but_reserved_ones_are_not() -> None:
    labels = {"team": "x", SERVICE_NAME: "wrong", MANAGED_BY: "wrong", HEADLESS: "wrong"}
    (planned,) = plan(make_service(labels=labels), [make_pod()]).create
    assert planned["metadata"]["labels"] == {"team": "x", **RESERVED_LABELS}


@pytest.mark.parametrize("cluster_ip", ["None", ""])
def test_slices_of_a_headless_service_are_marked(cluster_ip: str) -> None:
    (planned,) = plan(make_service(clusterIP=cluster_ip), [make_pod()]).create
    assert planned["metadata"]["labels"] == {HEADLESS: "", **RESERVED_LABELS}


def test_changed_service_labels_rewrite_the_slice_and_nothing_else_of_it() -> None:
    existing = slices_for(make_service(labels={"team": "x", "old": "y"}), [make_pod()])
    (updated,) = plan(make_service(labels={"team": "z"}), [make_pod()], existing).update
    assert updated["metadata"]["labels"] == {"team": "z", **RESERVED_LABELS}
    assert updated["endpoints"] == existing[0]["endpoints"]
    assert updated["metadata"]["resourceVersion"] == existing[0]["metadata"]["resourceVersion"]


@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_planning_does_not_modify_its_input(before: int) -> None:
    service = make_service(trafficDistribution="PreferSameNode", labels={"team": "x"})
    pods, existing = make_pods(2), slices_for(make_service(), make_pods(before))
    given = repr((service, pods, existing))
    assert not plan(service, pods, existing).is_empty
    assert repr((service, pods, existing)) == given


def test_hints_alone_rewrite_a_copy_of_the_slice() -> None:
    existing = slices_for(make_service(), [make_pod()])
    given = repr(existing)
    assert not plan(make_service(trafficDistribution="PreferSameNode"), [make_pod()], existing).is_empty
    assert repr(existing) == given


def test_memo_of_another_version_of_the_service_is_not_used() -> None:
    memo, pods = EndpointCache(), [make_pod(ready=False)]
    for publish in (False, True, False):
        service = make_service(publishNotReadyAddresses=publish)
        assert endpoints(plan(service, pods, memo=memo).create)[0]["conditions"]["ready"] is publish


@pytest.mark.parametrize("spec", [{"type": "ExternalName"}, {"selector": None}, {"selector": {}}])
def test_service_that_selects_no_pods_is_skipped_and_keeps_its_slices(spec: Object) -> None:
    existing = slices_for(make_service(), [make_pod()])
    planned = plan(make_service(**spec), [make_pod()], existing)
    assert planned.is_empty
    assert planned.mechanism == NoHints("the Service is of type ExternalName or has no selector")


def test_service_without_endpoints_has_one_empty_slice_without_ports_in_each_family() -> None:
    slices = slices_for(make_service(ipFamilies=["IPv4", "IPv6"]))
    assert [(each["addressType"], each["ports"], each["endpoints"]) for each in slices] == [
        ("IPv4", [], []),
        ("IPv6", [], []),
    ]


def test_empty_slice_is_filled_when_the_first_pod_comes_and_emptied_when_the_last_goes() -> None:
    service = make_service()
    empty = slices_for(service)
    first = plan(service, [make_pod()], empty)
    assert (len(first.create), len(first.update), len(first.delete)) == (0, 1, 0)
    full = apply(first, empty)
    assert (addresses(full), full[0]["ports"][0]["port"]) == (["10.244.1.1"], 8080)
    last = plan(service, [], full)
    assert (len(last.create), len(last.update), len(last.delete)) == (0, 1, 0)
    assert (last.update[0]["ports"], last.update[0]["endpoints"]) == ([], [])


ODD: dict[str, tuple[Object, list[Object]]] = {
    "no pods": (make_service(), []),
    "headless without ports": (make_service(clusterIP="None", ports=[]), []),
    "headless without ports, with pods": (make_service(clusterIP="None", ports=[]), make_pods(3)),
    "pods of the other family": (make_service(ipFamilies=["IPv6"]), make_pods(3)),
    "pods on missing nodes": (make_service(), make_pods(3, node="gone")),
    "pods without the named port": (make_service(ports=[{"port": 80, "targetPort": "no"}]), make_pods(3)),
    "pods that have ended": (make_service(), make_pods(3, phase="Failed")),
    "dual stack, IPv4 pods": (make_service(ipFamilies=["IPv4", "IPv6"]), make_pods(3)),
    "several slices with hints": (make_service(trafficDistribution="PreferSameNode"), make_pods(250)),
}


@pytest.mark.parametrize("case", ODD)
def test_second_sync_writes_nothing(case: str) -> None:
    service, pods = ODD[case]
    existing = slices_for(service, pods)
    assert existing
    assert plan(service, pods, existing).is_empty


@pytest.mark.parametrize("case", ODD)
def test_losing_all_pods_and_syncing_twice_writes_nothing_more(case: str) -> None:
    service, pods = ODD[case]
    existing = slices_for(service, pods)
    existing = slices_for(service, [], existing)
    assert plan(service, [], existing).is_empty
    assert not addresses(existing)


def test_slices_of_a_family_that_the_service_lost_are_deleted() -> None:
    pods = [make_pod(ips=["10.244.1.1", "fd00::1"])]
    existing = slices_for(make_service(ipFamilies=["IPv4", "IPv6"]), pods)
    planned = plan(make_service(ipFamilies=["IPv4"]), pods, existing)
    assert [each["addressType"] for each in planned.delete] == ["IPv6"]
    assert (planned.create, planned.update) == ((), ())


def test_slices_of_an_earlier_service_of_the_same_name_are_deleted_not_reused() -> None:
    existing = slices_for(make_service(uid="before"), [make_pod()])
    planned = plan(make_service(uid="now"), [make_pod()], existing)
    assert (planned.delete, planned.update, len(planned.create)) == (tuple(existing), (), 1)


def test_service_that_is_being_deleted_gets_no_new_slices() -> None:
    service = make_service()
    service["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert plan(service, [make_pod()]).is_empty


def test_slice_being_deleted_is_ignored() -> None:
    (existing,) = slices_for(make_service(), [make_pod()])
    existing["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    planned = plan(make_service(), [make_pod()], [existing])
    assert (len(planned.create), planned.update, planned.delete) == (1, (), ())


def test_slices_of_a_deleted_service_are_deleted_and_ownerless_ones_kept() -> None:
    owned = slices_for(make_service(), [make_pod()])
    (ownerless,) = slices_for(make_service(), [make_pod()])
    ownerless["metadata"]["ownerReferences"] = []
    assert plan_deleted_service("web", [*owned, ownerless]).delete == tuple(owned)


def test_changed_ports_rewrite_slices_in_place() -> None:
    existing = slices_for(make_service(), make_pods(150))
    planned = plan(make_service(ports=[{"name": "http", "port": 80, "targetPort": 9090}]), make_pods(150), existing)
    assert (planned.create, len(planned.update), planned.delete) == ((), 2, ())
    assert {each["ports"][0]["port"] for each in planned.update} == {9090}
    assert len(addresses(planned.update)) == 150


@pytest.mark.parametrize("count", [0, 1])
def test_only_one_of_several_empty_slices_is_kept(count: int) -> None:
    (empty,) = slices_for(make_service())
    other = {**empty, "metadata": {**empty["metadata"], "name": "web-other"}}
    planned = plan(make_service(), make_pods(count), [empty, other])
    assert (planned.create, len(planned.update), len(planned.delete)) == ((), count, 1)


def test_placeholder_follows_the_labels_of_its_service() -> None:
    existing = slices_for(make_service())
    (updated,) = plan(make_service(labels={"team": "x"}), [], existing).update
    assert updated["metadata"]["labels"]["team"] == "x"


def test_unread_fields_of_endpoints_cause_no_write() -> None:
    (existing,) = slices_for(make_service(), [make_pod()])
    (endpoint,) = existing["endpoints"]
    target: Any = {**endpoint["targetRef"], "resourceVersion": "7"}
    existing["endpoints"] = [{**endpoint, "targetRef": target, "deprecatedTopology": {"k": "v"}}]
    assert plan(make_service(), [make_pod()], [existing]).is_empty
