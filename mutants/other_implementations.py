"""Correct proxies that differ from kube-proxy in the same ways as other implementations.

Each variant represents proxies in real use. No KEP forbids the difference. So the variant passes all requirements
of its features except those in `unmet`, which describe behaviour of kube-proxy that the API leaves to implementations.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mutants.affinity import unrenewed
from mutants.data_planes import edited
from mutants.mutant import Mutant
from mutants.wrong_decisions import DecisionInput, deciding, without_hints
from reference.client import Object
from reference.proxy import ServiceProxy
from reference.proxy.decision import Decision
from reference.proxy.objects import ANNOTATION, DEPRECATED_ANNOTATION
from reference.proxy.state import State


class FollowsRequestedHints(State):
    """Reads the hints that a Service requests as "zone node", for releases whose proxy does not use the annotation."""

    def __init__(self, *arguments: Any, **parts: Any) -> None:
        super().__init__(*arguments, decide=deciding(_where_asked), **parts)

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "services" and self._behaviour.annotation == "unused":
            metadata = obj["metadata"]
            annotations = {**(metadata.get("annotations") or {}), DEPRECATED_ANNOTATION: _asked(obj)}
            obj = {**obj, "metadata": {**metadata, "annotations": annotations}}
        super().receive(resource, obj, deleted=deleted)


def _asked(service: Object) -> str:
    """Return the kinds of hints that a Service requests through the field or through either annotation."""
    annotations = service["metadata"].get("annotations") or {}
    value = service["spec"].get("trafficDistribution") or ""
    by_annotation = {annotations.get(key, "") for key in (ANNOTATION, DEPRECATED_ANNOTATION)} & {"Auto", "auto", "Node"}
    if value == "PreferSameNode" or "Node" in by_annotation:
        return "zone node"
    return "zone" if value or by_annotation else ""


def _where_asked(question: DecisionInput) -> Decision:
    if question.behaviour.annotation != "unused":
        return question.answer()
    asked = question.port.topology_annotation.split()
    return question.answer(
        endpoints=without_hints(question.endpoints, zones="zone" not in asked, nodes="node" not in asked)
    )


FAMILIES = [
    Mutant(
        "follows-hints-where-asked",
        "The proxy follows hints only on Services that request them, through trafficDistribution or an annotation.",
        "Cilium, OVN-Kubernetes",
        proxy=partial(ServiceProxy, state=FollowsRequestedHints),
        lacks=frozenset({"HintsOnAnyService", "NodeLevelTopology", "NodeLevelTopologyRouting"}),
        unmet=frozenset({"KEP-4444/proxy-follows-hints-whatever-the-service-says"}),
    ),
    Mutant(
        "hard-affinity-timeout",
        "Session affinity expires timeoutSeconds after a client's first connection, even if the client keeps "
        "connecting.",
        "Antrea",
        proxy=edited(unrenewed),
        lacks=frozenset({"AffinityRenewal"}),
        unmet=frozenset({"AFFINITY/coming-again-renews-it"}),
    ),
]
