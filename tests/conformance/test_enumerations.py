"""Each value of each enumeration of the API occurs in a requirement of each component that reads it.

A component can treat one value wrongly and all others rightly. `WALKED` names a requirement for each value, and the
tests check that the requirement's scenario contains the value. A value that is not in `WALKED` is in `NOWHERE`, with
the reason.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

import pytest

from harness.variation.axes import AXES
from reference.apiserver.kinds import addresses, conditions, endpointslices, pods, service_fields
from tests.conformance.mutant_trials import SCENARIOS

TRISTATE = ("absent", "false", "true")

ENUMERATIONS: Mapping[str, tuple[str, ...]] = {
    "PodPhase": pods.PHASES,
    "RestartPolicy": pods.RESTART_POLICIES,
    "Ready of a pod": (*conditions._STATUSES, "absent"),
    "Ready of a node": conditions._STATUSES,
    "Protocol": addresses.PROTOCOLS,
    "ServiceType": (*service_fields.TYPES, "headless"),
    "SessionAffinity": ("ClientIP", "None"),
    "IPFamily": service_fields.FAMILIES,
    "IPFamilyPolicy": service_fields.POLICIES,
    "InternalTrafficPolicy": service_fields.TRAFFIC_POLICIES,
    "ExternalTrafficPolicy": service_fields.TRAFFIC_POLICIES,
    "TrafficDistribution": ("PreferClose", "PreferSameNode", "PreferSameZone"),
    "topology-mode": ("Auto", "Disabled", "auto", "disabled"),
    "LoadBalancerIPMode": ("Proxy", "VIP"),
    "AddressType": endpointslices.ADDRESS_TYPES,
    "ready": TRISTATE,
    "serving": TRISTATE,
    "terminating": TRISTATE,
}
"""The values of each enumeration, those of an API server if it refuses others."""

ENDED, LASTING = "SLICE/ended-pods-are-no-endpoints", "SLICE/pods-of-every-other-phase-are-endpoints"
READINESS, KINDS = "SLICE/only-true-means-ready", "SLICE/ended-pods-are-no-endpoints"
GRID, HINTED = "INTERACTIONS/cluster-ip", "INTERACTIONS/cluster-ip-hints"
REUSED, LEAVING = "SERVICE/address-of-a-ready-and-a-terminating-endpoint", "KEP-1669/unknown-serving-counts-as-serving"
ANNOTATED, TYPED = "KEP-4444/hints-are-followed-beside-any-annotation", "CHANGES/api-stores-the-field-for-each-type"

Walk = str | tuple[str, str]
"""A requirement, with the text by which its scenario has the value if it is not the value itself. Or "axis=value"."""

WALKED: Mapping[tuple[str, str], Mapping[str, Walk]] = {
    ("controller", "PodPhase"): {
        "Failed": ENDED,
        "Succeeded": ENDED,
        "Pending": LASTING,
        "Running": LASTING,
        "Unknown": LASTING,
    },
    ("controller", "RestartPolicy"): dict.fromkeys(("Always", "Never", "OnFailure"), ENDED),
    ("controller", "Ready of a pod"): {
        "True": READINESS,
        "False": READINESS,
        "Unknown": READINESS,
        "absent": READINESS,
    },
    ("controller", "Ready of a node"): {
        "False": ("KEP-2433/unready-nodes-do-not-count", "ready=False"),
        "True": ("KEP-2433/unready-nodes-do-not-count", "size_zones("),
        "Unknown": "KEP-2433/unready-nodes-do-not-count",
    },
    ("controller", "Protocol"): {"TCP": ("SLICE/named-ports-resolve-per-pod", "TCP"), "UDP": KINDS, "SCTP": KINDS},
    ("controller", "ServiceType"): {
        "ClusterIP": (KINDS, "cluster-ip"),
        "NodePort": KINDS,
        "LoadBalancer": KINDS,
        "ExternalName": "SLICE/no-selector-no-slices",
        "headless": KINDS,
    },
    ("controller", "SessionAffinity"): {"ClientIP": KINDS, "None": (KINDS, "'cluster-ip': {}")},
    ("controller", "IPFamily"): dict.fromkeys(("IPv4", "IPv6"), "SLICE/one-address-type-per-family"),
    ("controller", "IPFamilyPolicy"): {
        "PreferDualStack": "SLICE/one-address-type-per-family",
        "RequireDualStack": "SLICE/one-address-type-per-family",
        "SingleStack": "CHANGES/slices-go-with-their-family",
    },
    ("controller", "InternalTrafficPolicy"): {
        "Cluster": (KINDS, "'cluster-ip': {}"),
        "Local": (KINDS, "'internal_traffic_policy': 'Local'"),
    },
    ("controller", "ExternalTrafficPolicy"): {
        "Cluster": (KINDS, "'node-port': {'type': 'NodePort'}"),
        "Local": (KINDS, "'external_traffic_policy': 'Local'"),
    },
    ("controller", "TrafficDistribution"): {
        "PreferClose": "KEP-3015/prefer-close-means-prefer-same-zone",
        "PreferSameNode": "KEP-3015/prefer-same-node-hints-node-and-zone",
        "PreferSameZone": "KEP-3015/prefer-same-zone-hints-the-own-zone",
    },
    ("proxy", "Protocol"): dict.fromkeys(("TCP", "UDP"), GRID),
    ("proxy", "ServiceType"): {
        "ClusterIP": (GRID, "cluster-ip"),
        "NodePort": "INTERACTIONS/node-port",
        "LoadBalancer": "INTERACTIONS/load-balancer",
        "ExternalName": "SERVICE/proxy-keeps-running",
        "headless": "SERVICE/proxy-keeps-running",
    },
    ("proxy", "SessionAffinity"): {"ClientIP": "INTERACTIONS/affinity", "None": GRID},
    ("proxy", "IPFamily"): {"IPv4": GRID, "IPv6": "INTERACTIONS/ipv6"},
    ("proxy", "InternalTrafficPolicy"): dict.fromkeys(("Cluster", "Local"), GRID),
    ("proxy", "ExternalTrafficPolicy"): dict.fromkeys(("Cluster", "Local"), GRID),
    ("proxy", "TrafficDistribution"): dict.fromkeys(("PreferClose", "PreferSameNode", "PreferSameZone"), HINTED),
    ("proxy", "topology-mode"): {
        "Auto": ANNOTATED,
        "auto": ANNOTATED,
        "Disabled": ANNOTATED,
        "disabled": ANNOTATED,
    },
    ("proxy", "LoadBalancerIPMode"): dict.fromkeys(("Proxy", "VIP"), "CHANGES/ip-mode-of-a-service"),
    ("proxy", "AddressType"): {
        "IPv4": GRID,
        "IPv6": "INTERACTIONS/ipv6",
        "FQDN": "SLICE/slices-of-names-are-not-used",
    },
    ("proxy", "ready"): {
        "absent": ("KEP-4444/endpoint-of-unknown-readiness-is-used", "ready=None"),
        "false": (GRID, "'ready': False"),
        "true": "conditions=all",
    },
    ("proxy", "serving"): {
        "absent": (LEAVING, "serving=None"),
        "false": (GRID, "'serving': False"),
        "true": (GRID, "'serving': True"),
    },
    ("proxy", "terminating"): {
        "absent": "conditions=none",
        "false": (GRID, "'terminating': False"),
        "true": (GRID, "'terminating': True"),
    },
    ("API server", "Protocol"): dict.fromkeys(("SCTP", "TCP", "UDP"), "SLICE/api-refuses-malformed-slices"),
    ("API server", "AddressType"): dict.fromkeys(("FQDN", "IPv4", "IPv6"), "SLICE/api-refuses-malformed-slices"),
    ("API server", "ServiceType"): {
        "ClusterIP": TYPED,
        "ExternalName": TYPED,
        "LoadBalancer": TYPED,
        "NodePort": TYPED,
        "headless": TYPED,
    },
    ("API server", "TrafficDistribution"): {
        "PreferClose": "KEP-4444/api-stores-the-field",
        "PreferSameNode": "KEP-3015/api-stores-the-new-values",
        "PreferSameZone": "KEP-3015/api-stores-the-new-values",
    },
    ("API server", "LoadBalancerIPMode"): dict.fromkeys(("Proxy", "VIP"), "CHANGES/api-stores-load-balancer-addresses"),
    ("DNS server", "ServiceType"): {
        "ClusterIP": ("DNS/service-has-its-cluster-ips", "create_service("),
        "ExternalName": "DNS/external-name-is-an-alias",
        "headless": "DNS/headless-service-has-its-ready-endpoints",
    },
}
"""For each component and enumeration that it reads: where each value is."""

NOWHERE: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("proxy", "Protocol"): {"SCTP": "probes do not support it, because development kernels lack it"},
    ("DNS server", "ServiceType"): {
        "LoadBalancer": "its names are those of type ClusterIP",
        "NodePort": "its names are those of type ClusterIP",
    },
}

SPELLED = {"headless": "'None'"}
"""The text of a value in a scenario, if it is not the value in quotes."""


def text_of(function: FunctionType) -> str:
    """Return the source of a test and of all functions of the suite that it calls, with the data that they name."""
    return "\n".join(_texts(function, set()))


def _texts(function: FunctionType, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (whole,) = tree.body
    assert isinstance(whole, ast.FunctionDef)
    for statement in whole.body:
        yield ast.unparse(statement)
        for node in ast.walk(statement):
            named = _named(node, function.__globals__)
            if isinstance(named, FunctionType) and named.__module__.startswith("conformance."):
                yield from _texts(named, seen)
            elif isinstance(named, (str, tuple, list, dict, set)):
                yield repr(named)


def _named(node: ast.AST, known: Mapping[str, Any]) -> Any:
    """Return the global that an expression names, also in a module of the suite."""
    found = None
    if isinstance(node, ast.Name):
        found = known.get(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = known.get(node.value.id)
        found = getattr(module, node.attr, None) if isinstance(module, ModuleType) else None
    return inspect.unwrap(found) if callable(found) else found


EACH = [
    (component, name, value, walk) for (component, name), values in WALKED.items() for value, walk in values.items()
]


@pytest.mark.parametrize(("component", "name"), WALKED)
def test_each_value_is_somewhere(component: str, name: str) -> None:
    walked, nowhere = WALKED[component, name], NOWHERE.get((component, name), {})
    assert sorted([*walked, *nowhere]) == sorted(ENUMERATIONS[name])


def test_each_enumeration_is_read_by_a_component() -> None:
    assert {name for _, name in WALKED} == ENUMERATIONS.keys()
    assert NOWHERE.keys() <= WALKED.keys()


@pytest.mark.parametrize(("component", "name", "value", "walk"), EACH)
def test_scenario_has_the_value(component: str, name: str, value: str, walk: Walk) -> None:
    if isinstance(walk, str) and "=" in walk:
        axis, _, drawn = walk.partition("=")
        assert drawn in AXES[axis]
        return
    requirement_id, text = walk if isinstance(walk, tuple) else (walk, SPELLED.get(value, f"'{value}'"))
    function = inspect.unwrap(SCENARIOS[requirement_id].test)
    assert isinstance(function, FunctionType)
    assert text in text_of(function)
