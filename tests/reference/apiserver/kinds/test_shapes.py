"""Objects with wrong types are rejected, and unknown fields are dropped."""

from __future__ import annotations

import pytest

from reference.apiserver.kinds import strategies
from reference.apiserver.kinds.services import Services
from reference.features import Features


def test_unknown_fields_are_removed_and_named(service):
    obj = service(trafficPolicy="PreferZone", ports=[{"port": 80, "prot": "TCP"}])
    obj["metadata"]["colour"] = "red"
    assert sorted(Services().decode(obj, Features())) == ["metadata.colour", "spec.ports[0].prot", "spec.trafficPolicy"]
    assert obj == service()


def test_null_means_absent(service):
    obj = service(clusterIP="x", ports=[{"port": 80, "name": None}])
    obj["spec"]["clusterIP"] = obj["metadata"]["creationTimestamp"] = None
    assert Services().decode(obj, Features()) == []
    assert obj == service()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"ports": [{"port": "80"}]}, "string into Go struct field Service.spec.ports[0].port of type int32"),
        ({"ports": {"port": 80}}, "object into Go struct field Service.spec.ports of type slice"),
        ({"selector": {"app": 1}}, "number into Go struct field Service.spec.selector.app of type string"),
        ({"selector": "app"}, "string into Go struct field Service.spec.selector of type map[string]string"),
        ({"publishNotReadyAddresses": "yes"}, "string into Go struct field Service.spec.publishNotReadyAddresses"),
        ({"ports": [{"port": True}]}, "bool into Go struct field Service.spec.ports[0].port of type int32"),
        ({"trafficDistribution": 1}, "number into Go struct field Service.spec.trafficDistribution of type string"),
        ({"ports": [None]}, "null into Go struct field Service.spec.ports[0] of type object"),
        ({"ports": [{"port": 80, "targetPort": []}]}, "array into Go struct field Service.spec.ports[0].targetPort"),
    ],
)
def test_wrong_type_is_reported_with_its_path(service, spec, said):
    with pytest.raises(ValueError, match="cannot unmarshal") as caught:
        Services().decode(service(**spec), Features())
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("plural", "field", "since"),
    [("services", "trafficDistribution", 30), ("services", "internalTrafficPolicy", 21)],
)
def test_field_of_a_newer_release_is_unknown(rules, service, plural, field, since):
    strategy = rules.by_plural[plural]
    assert strategy.decode(service(**{field: "x"}), Features((1, since - 1))) == [f"spec.{field}"]
    assert strategy.decode(service(**{field: "x"}), Features((1, since))) == []


@pytest.mark.parametrize("plural", [each.resource.plural for each in strategies()])
@pytest.mark.parametrize("part", ["metadata", "spec", "status", "endpoints", "data"])
def test_every_kind_refuses_a_string_in_place_of_an_object(rules, plural, part):
    strategy = rules.by_plural[plural]
    obj = {"kind": strategy.resource.kind, "metadata": {"name": "x"}, part: "text"}
    try:
        unknown = strategy.decode(obj, Features())
    except ValueError as error:
        assert f".{part} of type" in str(error)  # noqa: PT017
    else:
        assert unknown == [part]


@pytest.mark.parametrize("plural", [each.resource.plural for each in strategies()])
def test_every_kind_survives_an_empty_object(rules, plural):
    assert isinstance(rules.refusals(plural, {"metadata": {"name": "x", "namespace": "default"}}), list)
