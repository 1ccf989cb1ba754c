"""The rules for `metadata`, which are the same for all kinds."""

from __future__ import annotations

import pytest

from reference.apiserver.kinds import metadata, names

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}


def complaints(*, namespaced=True, **fields):
    obj = {"metadata": {"name": "web", **({"namespace": "default"} if namespaced else {}), **fields}}
    found = metadata.validate(obj, namespaced=namespaced, valid_name=names.dns_subdomain)
    return [str(each) for each in found]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "a.b-c.d"},
        {"name": "1"},
        {"name": "x" * 253},
        {"generateName": "web-"},
        {"labels": {"app": "web", "example.com/App_1": "", "a.b": "X.y_z-1"}},
        {"annotations": {"example.com/UPPER": "any text at all: ü / \n"}},
        {"finalizers": ["example.com/wait", "foregroundDeletion"]},
        {"ownerReferences": [{**OWNER, "controller": True}, OWNER]},
        {"annotations": {"a": "x" * (256 * 1024 - 1)}},
    ],
)
def test_metadata_is_accepted(fields):
    assert complaints(**fields) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": ""}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "Web"}, 'metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of'),
        ({"name": "a..b"}, 'metadata.name: Invalid value: "a..b"'),
        ({"name": "x" * 254}, f'metadata.name: Invalid value: "{"x" * 254}": must be no more than 253 bytes'),
        ({"generateName": "Web-"}, 'metadata.generateName: Invalid value: "Web-"'),
        ({"namespace": ""}, "metadata.namespace: Required value"),
        ({"namespace": "a.b"}, 'metadata.namespace: Invalid value: "a.b": a lowercase RFC 1123 label'),
        ({"labels": {"a/b/c": ""}}, 'metadata.labels: Invalid value: "a/b/c": a qualified name must consist of'),
        ({"labels": {"/a": ""}}, 'metadata.labels: Invalid value: "/a": prefix part must be non-empty'),
        ({"labels": {"a/": ""}}, 'metadata.labels: Invalid value: "a/": name part must be non-empty'),
        ({"labels": {"A_B/c": ""}}, 'metadata.labels: Invalid value: "A_B/c": prefix part a lowercase RFC 1123'),
        (
            {"labels": {"x" * 64: ""}},
            f'metadata.labels: Invalid value: "{"x" * 64}": name part must be no more',
        ),
        ({"labels": {"a": "x" * 64}}, f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes'),
        ({"labels": {"a": "-x"}}, 'metadata.labels: Invalid value: "-x": a valid label must be an empty string or'),
        ({"annotations": {"a b": ""}}, 'metadata.annotations: Invalid value: "a b"'),
        (
            {"annotations": {"a": "x" * 256 * 1024}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        ({"finalizers": ["a b"]}, 'metadata.finalizers: Invalid value: "a b"'),
        (
            {"ownerReferences": [{**OWNER, "uid": ""}]},
            'metadata.ownerReferences[0].uid: Invalid value: "": must not be empty',
        ),
        ({"ownerReferences": [{**OWNER, "controller": True}] * 2}, "metadata.ownerReferences: Invalid value"),
    ],
)
def test_metadata_is_refused(fields, said):
    assert complaints(**fields)[0].startswith(said)


def test_cluster_wide_kind_has_no_namespace():
    assert complaints(namespaced=False) == []
    assert complaints(namespaced=False, namespace="default") == [
        "metadata.namespace: Forbidden: not allowed on this type"
    ]


@pytest.mark.parametrize("name", ["name", "namespace", "uid", "creationTimestamp"])
def test_identity_is_fixed(name):
    old = {"metadata": {"name": "web", "namespace": "default", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    new = {"metadata": {**old["metadata"], name: "other"}}
    assert [str(each) for each in metadata.validate_update(new, old)] == [
        f'metadata.{name}: Invalid value: "other": field is immutable'
    ]


@pytest.mark.parametrize("plural", ["namespaces", "services"])
def test_names_of_namespaces_and_services_have_no_dots(rules, plural):
    assert rules.by_plural[plural].valid_name("a.b")
    assert rules.by_plural["nodes"].valid_name("a.b") == []
