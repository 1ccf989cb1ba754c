"""Translate the names of nodes and zones in objects, so that scenarios run unchanged on every cluster."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.api.client import Api, Response
from harness.model import topology

if TYPE_CHECKING:
    from harness.api.kubeconfig import Kubeconfig

_NODE_PATH = re.compile(r"(/api/v1/nodes/)([^/?]+)")


@dataclass(frozen=True, slots=True)
class NameTranslation:
    nodes: Mapping[str, str] = field(default_factory=dict)
    zones: Mapping[str, str] = field(default_factory=dict)
    hostnames: Mapping[str, str] = field(default_factory=dict)
    """The hostname label of each node of the topology, if it differs from the node's name."""

    @property
    def trivial(self) -> bool:
        return all(ours == theirs for each in (self.nodes, self.zones, self.hostnames) for ours, theirs in each.items())

    def as_text(self) -> str:
        kinds = (("node", self.nodes), ("zone", self.zones), ("hostname", self.hostnames))
        return "".join(f"{kind} {ours}: {theirs}\n" for kind, names in kinds for ours, theirs in names.items())

    def outgoing(self, value: Any) -> Any:
        """Return an object, or part of an object, in which the cluster's names replace those of the topology."""
        return _translated(value, self)

    def incoming(self, value: Any) -> Any:
        """Return an object, or part of an object, in which the topology's names replace those of the cluster."""
        return _translated(value, NameTranslation(_inverse(self.nodes), _inverse(self.zones), _inverse(self.hostnames)))

    def node(self, name: str) -> str:
        return self.nodes.get(name, name)

    def path(self, path: str) -> str:
        return _NODE_PATH.sub(lambda found: found[1] + self.node(found[2]), path)


class TranslatingApi(Api):
    def __init__(self, kubeconfig: "Kubeconfig | Mapping[str, Any]", names: NameTranslation, **options: Any) -> None:
        super().__init__(kubeconfig, **options)
        self._names = names

    def request(self, method: str, path: str, body: object = None, **options: Any) -> Response:
        if self._names.trivial:
            return super().request(method, path, body, **options)
        answer = super().request(method, self._names.path(path), self._names.outgoing(body), **options)
        return Response(answer.code, self._names.incoming(answer.body), answer.warnings, answer.date)


def _inverse(names: Mapping[str, str]) -> dict[str, str]:
    return {theirs: ours for ours, theirs in names.items()}


def _translated(value: Any, names: NameTranslation) -> Any:
    if isinstance(value, list):
        return [_translated(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: _field(key, each, names) for key, each in value.items()}
    status = value.get("status")  # items of a list have no kind, but only Nodes have a nodeInfo
    is_node = value.get("kind") == "Node" or (isinstance(status, dict) and "nodeInfo" in status)
    if is_node and isinstance(made.get("metadata"), dict):
        made["metadata"]["name"] = names.node(made["metadata"].get("name"))
    return made


def _field(key: str, value: Any, names: NameTranslation) -> Any:
    if isinstance(value, str):
        match key:
            case "nodeName":
                return names.node(value)
            case topology.HOSTNAME_LABEL:
                return names.hostnames.get(value) or names.node(value)
            case "zone" | topology.ZONE_LABEL:
                return names.zones.get(value, value)
        return value
    if key in ("forZones", "forNodes") and isinstance(value, list):
        known = names.zones if key == "forZones" else names.nodes
        return [
            {**each, "name": known.get(each["name"], each["name"])}
            if isinstance(each, dict) and isinstance(each.get("name"), str)
            else each
            for each in value
        ]
    return _translated(value, names)
