"""The built-in PodLocator kind accepts the same objects as the CRD for real clusters."""

from __future__ import annotations

import copy
from pathlib import Path

import jsonschema
import pytest
import yaml

import reference.pod_locator
from reference.apiserver.kinds.pod_locators import PodLocators

CRD = yaml.safe_load((Path(reference.pod_locator.__file__).parent / "crd.yaml").read_text(encoding="utf-8"))
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
LABELS = {"topology.kubernetes.io/zone": "a", "node-role.kubernetes.io/worker": ""}

GOOD = [
    {},
    {"ips": [], "nodeName": "", "nodeLabels": {}},
    {"ips": [{"ip": "10.244.1.2"}, {"ip": "fd00::2"}], "nodeName": "a1", "nodeLabels": LABELS},
    {"nodeName": "a1.example.org", "nodeLabels": {"rack": "R_1.b"}},
]
BAD = {
    "ips[2]": {"ips": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}, {"ip": "10.0.0.3"}]},
    "ips[0].ip": {"ips": [{"ip": "10.0.0"}]},
    "ips[0].ip missing": {"ips": [{}]},
    "nodeName": {"nodeName": "a_1"},
    "nodeName length": {"nodeName": "a" * 254},
    "nodeLabels value": {"nodeLabels": {"rack": "-"}},
    "nodeLabels length": {"nodeLabels": {"rack": "a" * 64}},
}
WRONG_TYPES = [{"ips": {}}, {"ips": ["10.0.0.1"]}, {"nodeName": 1}, {"nodeLabels": {"rack": 1}}, {"nodeLabels": []}]


def locator(fields):
    return {"metadata": {"name": "web", "namespace": "default"}, **fields}


def manifest_takes(obj):
    return jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).is_valid(obj)


@pytest.mark.parametrize("fields", GOOD, ids=str)
def test_crd_and_server_accept_valid_locators(rules, fields):
    assert rules.refusals("podlocators", locator(fields)) == []
    assert manifest_takes(locator(fields))


@pytest.mark.parametrize("fields", BAD.values(), ids=BAD)
def test_crd_and_server_refuse_invalid_locators(rules, fields):
    assert rules.refusals("podlocators", locator(fields)) != []
    assert not manifest_takes(locator(fields))


@pytest.mark.parametrize("fields", WRONG_TYPES, ids=str)
def test_crd_and_server_refuse_wrong_types(rules, fields):
    with pytest.raises(ValueError, match="cannot unmarshal"):
        rules.create("podlocators", locator(fields))
    assert not manifest_takes(locator(fields))


def test_crd_and_server_have_the_same_names():
    resource, names = PodLocators.resource, CRD["spec"]["names"]
    assert (resource.group, resource.version) == (CRD["spec"]["group"], CRD["spec"]["versions"][0]["name"])
    assert (resource.kind, resource.plural, resource.singular) == (names["kind"], names["plural"], names["singular"])
    assert [*resource.short_names] == names["shortNames"]
    assert CRD["metadata"]["name"] == f"{resource.plural}.{resource.group}"


def test_crd_and_server_have_the_same_fields_and_columns():
    assert PodLocators.shape.keys() == SCHEMA["properties"].keys()
    columns = [each["name"] for each in CRD["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert [each.name for each in PodLocators().table] == ["Name", *columns]


def test_schema_is_structural():
    """API servers require a type for each field of a CRD, and reject fields that occur only in allOf or similar."""

    def untyped(schema, path):
        inner = {**schema.get("properties", {}), "[]": schema.get("items"), "{}": schema.get("additionalProperties")}
        found = [] if "type" in schema else [path]
        return found + [each for name, one in inner.items() if one for each in untyped(one, f"{path}.{name}")]

    assert untyped(SCHEMA, "") == []


def test_generation_counts_changes_of_the_content(rules):
    old = rules.create("podlocators", locator({"nodeName": "a1"}))
    relabelled = copy.deepcopy(old)
    relabelled["metadata"]["labels"] = {"app": "web"}
    assert not PodLocators().spec_changed(relabelled, old)
    assert PodLocators().spec_changed({**old, "nodeName": "a2"}, old)


def test_columns_show_node_and_addresses():
    obj = locator({"nodeName": "a1", "ips": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]})
    assert [each.cell(obj) for each in PodLocators().table[:3]] == ["web", "a1", "10.0.0.1,fd00::1"]
