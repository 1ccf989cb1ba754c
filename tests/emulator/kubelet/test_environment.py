"""Environment variables of containers: literal values, pod fields, and references to other variables."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.kubelet.environment import ConfigError, FieldValues, environment_of, expanded

POD: dict[str, Any] = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "42",
        "labels": {"app": "web"},
        "annotations": {"a.b/c": "d"},
    },
    "spec": {"nodeName": "a1", "serviceAccountName": "robot"},
}
FIELDS = FieldValues(POD, ("10.244.1.2", "fd00::2"), ("10.0.0.2", "fd00::1"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web-1"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "42"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['a.b/c']", "d"),
        ("spec.nodeName", "a1"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "10.244.1.2"),
        ("status.podIPs", "10.244.1.2,fd00::2"),
        ("status.hostIP", "10.0.0.2"),
        ("status.hostIPs", "10.0.0.2,fd00::1"),
    ],
)
def test_field_references_are_resolved(path: str, value: str) -> None:
    container = {"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]}
    assert environment_of(container, FIELDS, {}) == {"X": value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(A)-$(B)", "1-2"),
        ("$(NONE)", "$(NONE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A $", "$A $"),
        ("$(A", "$(A"),
    ],
)
def test_references_are_replaced(text: str, value: str) -> None:
    assert expanded(text, {"A": "1", "B": "2"}) == value


def test_variables_refer_to_those_before_them() -> None:
    env = [{"name": "A", "value": "$(B)"}, {"name": "B", "value": "2"}, {"name": "C", "value": "$(A) $(B)"}]
    assert environment_of({"env": env}, FIELDS, {"PATH": "/bin"}) == {
        "PATH": "/bin",
        "A": "$(B)",
        "B": "2",
        "C": "$(B) 2",
    }


@pytest.mark.parametrize(
    "container",
    [
        {"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.none"}}}]},
        {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]},
        {"envFrom": [{"configMapRef": {"name": "a"}}]},
    ],
)
def test_unresolvable_reference_is_refused(container: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        environment_of(container, FIELDS, {})
