"""The shapes of kinds contain every field of the `kubernetes` package, which is generated from OpenAPI."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from reference.apiserver.kinds import shapes, strategies

MODELS = {
    "namespaces": "V1Namespace",
    "nodes": "V1Node",
    "pods": "V1Pod",
    "services": "V1Service",
    "endpointslices": "V1EndpointSlice",
    "events": "CoreV1Event",
    "leases": "V1Lease",
    "servicecidrs": "V1ServiceCIDR",
    "configmaps": "V1ConfigMap",
    "secrets": "V1Secret",
    "customresourcedefinitions": "V1CustomResourceDefinition",
}


PUBLISHED = [each for each in strategies() if each.resource.group != "trafficdist.dev"]
"""The kinds that exist in Kubernetes. Other tests compare our own kinds with their manifests."""


def unknown_fields(type_name, shape, path):
    """Return the paths of the model's fields that are missing from the shape, including nested models."""
    listed = re.fullmatch(r"list\[(.*)\]", type_name)
    if listed:
        return unknown_fields(listed[1], shape[0], f"{path}[]") if isinstance(shape, list) else []
    model = getattr(import_module("kubernetes.client.models"), type_name, None)
    if model is None or not isinstance(shape, dict):
        return []
    found = []
    for attribute, name in model.attribute_map.items():
        field = shape.get(name, shape.get(shapes.OTHERS))
        at = f"{path}.{name}"
        found += [at] if field is None else unknown_fields(model.openapi_types[attribute], field, at)
    return found


@pytest.mark.parametrize("strategy", PUBLISHED, ids=lambda each: each.resource.plural)
def test_every_published_field_is_known(strategy):
    plural = strategy.resource.plural
    assert unknown_fields(MODELS[plural], strategy.shape, plural) == []


@pytest.mark.parametrize("strategy", PUBLISHED, ids=lambda each: each.resource.plural)
def test_check_detects_a_missing_field(strategy):
    known = dict(strategy.shape)
    del known["metadata"]
    known.pop(shapes.OTHERS, None)
    assert unknown_fields(MODELS[strategy.resource.plural], known, "x") == ["x.metadata"]
