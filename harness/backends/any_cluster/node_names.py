"""Translates node names: scenarios use nodes a1, a2, b1 … in zones a, b, c, and a cluster has its own names.

Requests are translated to the cluster's names, and responses to the topology's names, by pure functions of objects. So
the same scenario runs unchanged on every cluster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.api.client import Api, Response
from harness.api.kubeconfig import Kubeconfig
from harness.model.topology import HOSTNAME_LABEL, ZONE_LABEL

_TIMEOUT = 15.0  # seconds: a wait for a lost cluster ends within 30

_NODE_PATH = re.compile(r"(/api/v1/nodes/)([^/?]+)")


@dataclass(frozen=True, slots=True)
class Names:
    """The cluster's name of each node and each zone of the topology."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    zones: Mapping[str, str] = field(default_factory=dict)

    @property
    def trivial(self) -> bool:
        """True if the cluster uses the names of the topology."""
        return all(ours == theirs for each in (self.nodes, self.zones) for ours, theirs in each.items())

    def outgoing(self, value: Any) -> Any:
        """Return an object, or part of an object, with the cluster's names."""
        return _translated(value, self.nodes, self.zones)

    def incoming(self, value: Any) -> Any:
        """Return an object, or part of an object, with the names of the topology."""
        return _translated(value, _inverse(self.nodes), _inverse(self.zones))

    def path(self, path: str) -> str:
        """Return a request's path with the cluster's names."""
        return _NODE_PATH.sub(lambda found: found[1] + self.nodes.get(found[2], found[2]), path)


class TranslatingApi(Api):
    """Sends and returns objects with the names of the topology."""

    def __init__(self, kubeconfig: Kubeconfig | Mapping[str, Any], names: Names, **options: Any) -> None:
        super().__init__(kubeconfig, timeout=_TIMEOUT, **options)
        self._names = names

    def request(self, method: str, path: str, body: object = None, **options: Any) -> Response:
        if self._names.trivial:
            return super().request(method, path, body, **options)
        answer = super().request(method, self._names.path(path), self._names.outgoing(body), **options)
        return Response(answer.code, self._names.incoming(answer.body), answer.warnings, answer.date)


def _inverse(names: Mapping[str, str]) -> dict[str, str]:
    return {theirs: ours for ours, theirs in names.items()}


def _translated(value: Any, nodes: Mapping[str, str], zones: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_translated(each, nodes, zones) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: _field(key, each, nodes, zones) for key, each in value.items()}
    if _is_node(value) and isinstance(made.get("metadata"), dict):
        name = made["metadata"].get("name")
        made["metadata"]["name"] = nodes.get(name, name)
    return made


def _field(key: str, value: Any, nodes: Mapping[str, str], zones: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        if key in ("nodeName", HOSTNAME_LABEL):
            return nodes.get(value, value)
        return zones.get(value, value) if key in ("zone", ZONE_LABEL) else value
    if key in ("forZones", "forNodes") and isinstance(value, list):
        names = zones if key == "forZones" else nodes
        return [
            {**each, "name": names.get(each["name"], each["name"])}
            if isinstance(each, dict) and isinstance(each.get("name"), str)
            else each
            for each in value
        ]
    return _translated(value, nodes, zones)


def _is_node(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a Node. Items of a list have no kind, but only Nodes have nodeInfo."""
    status = value.get("status")
    return value.get("kind") == "Node" or (isinstance(status, dict) and "nodeInfo" in status)
