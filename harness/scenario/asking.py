"""What a Service asks for, and what of it hints may be written for.

KEP-4444 has kube-proxy follow hints whatever the Service says, and leaves other proxies free: several read hints only
where the field or the annotation asks for them. A scenario with hints for a Service that asks for none would judge that
design, and not what it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.errors import UsageError
from harness.model.manifests import Endpoint

AUTOMATIC = {"service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"}
"""Annotations that make a controller share out endpoints by the CPU of all nodes."""


def asked_of(service: Mapping[str, Any]) -> frozenset[str]:
    """The kinds of hints that a Service, or a patch of one, asks for: "zone" and "node"."""
    annotations = (service.get("metadata") or {}).get("annotations") or {}
    annotated = {annotations.get(key) or "" for key in AUTOMATIC} - {"", "Disabled", "disabled"}
    value = str((service.get("spec") or {}).get("trafficDistribution") or "")
    node = value == "PreferSameNode" or "/" in value or "Node" in annotated
    zone = bool(value or annotated)
    return frozenset(kind for kind, asked in (("node", node), ("zone", zone)) if asked)


def refuse_unasked(name: str, asked: frozenset[str], endpoints: Iterable[Endpoint]) -> None:
    """Raise `UsageError` for hints of a kind that the Service of this name does not ask for."""
    hints = [each.hints for each in endpoints if each.hints is not None]
    written = {"zone": any(each.zones for each in hints), "node": any(each.nodes for each in hints)}
    for kind, value in (("node", "PreferSameNode"), ("zone", "PreferClose")):
        if written[kind] and kind not in asked:
            raise UsageError(
                f"service {name} asks for no hints for {kind}s, and a proxy may ignore those that it does not ask for: "
                f'create it with traffic_distribution="{value}" or an annotation, or publish with unasked=True '
                "where just that is the question"
            )
