"""Namespaces, Events, Leases, IP address ranges and ConfigMaps."""

from __future__ import annotations

import pytest

from reference.apiserver.kinds import strategies
from reference.apiserver.kinds.events import Events


def named(name="x", *, namespace="default", **fields):
    meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"metadata": meta, **fields}


def test_kinds_are_found_under_the_names_that_clients_use():
    names = {each.resource.plural: (each.resource.api_version, each.resource.short_names) for each in strategies()}
    assert names == {
        "namespaces": ("v1", ("ns",)),
        "nodes": ("v1", ("no",)),
        "pods": ("v1", ("po",)),
        "services": ("v1", ("svc",)),
        "endpointslices": ("discovery.k8s.io/v1", ()),
        "events": ("v1", ("ev",)),
        "leases": ("coordination.k8s.io/v1", ()),
        "servicecidrs": ("networking.k8s.io/v1", ()),
        "configmaps": ("v1", ("cm",)),
        "secrets": ("v1", ()),
        "podlocators": ("trafficdist.dev/v1alpha1", ("ploc",)),
        "customresourcedefinitions": ("apiextensions.k8s.io/v1", ("crd", "crds")),
    }


def test_namespace_is_active_and_labelled_with_its_name(rules):
    created = rules.create("namespaces", named("shop", namespace=""))
    assert created["status"] == {"phase": "Active"}
    assert created["spec"] == {"finalizers": ["kubernetes"]}
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "shop"}


def test_clients_cannot_set_finalizers_of_a_namespace(rules):
    old = rules.create("namespaces", named("shop", namespace=""))
    assert rules.update("namespaces", old, {**old, "spec": {"finalizers": []}})["spec"] == old["spec"]


CORE = {
    "apiVersion": "v1",
    "kind": "Event",
    **named("web.1"),
    "involvedObject": {"kind": "Service", "namespace": "default", "name": "web"},
    "reason": "Because",
    "message": "text",
    "type": "Warning",
    "count": 3,
    "reportingComponent": "controller",
}


def test_event_is_served_in_two_groups():
    [view] = Events.views
    newer = view.from_stored(CORE)
    assert newer["apiVersion"] == view.api_version == "events.k8s.io/v1"
    assert (newer["note"], newer["regarding"], newer["deprecatedCount"]) == ("text", CORE["involvedObject"], 3)
    assert newer["reportingController"] == "controller"
    assert view.to_stored(newer) == CORE


def test_event_is_in_the_namespace_of_its_object(rules):
    assert rules.refusals("events", CORE) == []
    wrong = {**CORE, "involvedObject": {"kind": "Service", "namespace": "shop", "name": "web"}}
    assert rules.refusals("events", wrong) == [
        'involvedObject.namespace: Invalid value: "shop": does not match event.namespace'
    ]


def test_event_of_a_cluster_wide_object_is_in_the_default_namespace(rules):
    assert rules.refusals("events", {**CORE, "involvedObject": {"kind": "Node", "name": "a1"}}) == []


def test_events_can_be_selected_by_object():
    chosen = Events.selectable_fields
    assert (chosen["involvedObject.name"](CORE), chosen["reason"](CORE), chosen["type"](CORE)) == (
        "web",
        "Because",
        "Warning",
    )


REFUSED = [
    ("leases", named(spec={"leaseDurationSeconds": 0}), "spec.leaseDurationSeconds: Invalid value: 0"),
    ("leases", named(spec={"leaseTransitions": -1}), "spec.leaseTransitions: Invalid value: -1"),
    ("servicecidrs", named(namespace="", spec={}), "spec.cidrs: Required value"),
    ("servicecidrs", named(namespace="", spec={"cidrs": ["10.0.0.0"]}), "spec.cidrs[0]: Invalid value"),
    ("servicecidrs", named(namespace="", spec={"cidrs": ["10.0.0.0/8", "11.0.0.0/8"]}), "spec.cidrs: Invalid value"),
    ("configmaps", named(data={"a b": ""}), 'data[a b]: Invalid value: "a b"'),
    ("configmaps", named(data={"a": "x" * (1024 * 1024 + 1)}), ": Too long"),
]


@pytest.mark.parametrize(("plural", "obj", "said"), REFUSED)
def test_object_is_refused(rules, plural, obj, said):
    assert rules.refusals(plural, obj)[0].startswith(said)


ACCEPTED = [
    ("leases", named(spec={"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.0Z"})),
    ("servicecidrs", named(namespace="", spec={"cidrs": ["10.96.0.0/16", "fd00:10:96::/112"]})),
    ("configmaps", named(data={"key.name": "v"}, binaryData={"KEY": "AA=="})),
]


@pytest.mark.parametrize(("plural", "obj"), ACCEPTED)
def test_object_is_accepted(rules, plural, obj):
    assert rules.refusals(plural, obj) == []


def test_immutable_configuration_cannot_change(rules):
    old = rules.create("configmaps", named(data={"a": "1"}, immutable=True))
    assert rules.update_refusals("configmaps", old, {**old, "data": {"a": "2"}}) == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]


def test_service_cidr_may_gain_a_family_but_not_lose_one(rules):
    old = rules.create("servicecidrs", named(namespace="", spec={"cidrs": ["10.96.0.0/16"]}))
    more = {**old, "spec": {"cidrs": ["10.96.0.0/16", "fd00:10:96::/112"]}}
    assert rules.update_refusals("servicecidrs", old, more) == []
    assert rules.update_refusals("servicecidrs", more, old)
