"""A scenario's changes to nodes: labels, taints, the reported status, and nodes that exist only in the API.

API-only nodes run no pods, but they add zones to a cluster, which is sufficient to judge a controller.
"""

from collections.abc import Mapping
from typing import Any, Literal

from harness.api.client import Api, Object
from harness.backends.protocols import NodeControl, NodePower, part_of
from harness.backends.scenario_backend import ScenarioBackend
from harness.errors import UsageError
from harness.guest.nodes import NodeChange
from harness.judging.history import History
from harness.model import manifests
from harness.model.abilities import Ability
from harness.model.topology import HOSTNAME_LABEL, ZONE_LABEL, Node
from harness.variation.objects import LabelVariation

Readiness = bool | Literal["Unknown"]

_REPORTED = ("allocatable", "capacity", "conditions")


class Nodes:
    def __init__(self, backend: ScenarioBackend, history: History, variation: LabelVariation) -> None:
        """`variation` varies label keys without "kubernetes.io/". Unsupported changes raise `UnavailableError`."""
        self._backend = backend
        self._need = backend.need
        self._history = history
        self._variation = variation
        self._made: set[str] = set()
        self._reported: set[str] = set()
        self._stopped: set[str] = set()
        self._unregistered: dict[str, Object] = {}
        self._before: dict[str, Object] = {}

    @property
    def _api(self) -> Api:
        return self._backend.api

    def create(
        self,
        name: str,
        zone: str,
        *,
        cpu_milli: int = 4000,
        ready: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Create a node that exists in the API only. A `cpu_milli` of 0 means that the CPU is unknown.

        If `zone` is "", the node has only these `labels`, not even the hostname label.
        """
        self._need(Ability.CREATE_NODES)
        self._begin("create node", node=name, zone=zone, cpu_milli=cpu_milli, ready=ready)
        where = {HOSTNAME_LABEL: name, ZONE_LABEL: zone} if zone else {}
        status = manifests.node_status(Node(name, zone, cpu_milli), [], ready=ready)
        all_labels = {**where, **(labels or {})}
        metadata = {"name": name} | ({"labels": all_labels} if all_labels else {})
        self._api.create("nodes", "", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
        self._made.add(name)

    def delete(self, name: str) -> None:
        """Delete a node that exists in the API only. Raises `UsageError` for any other node."""
        if name not in self._made:
            raise UsageError(f"node {name} runs pods and a proxy: a scenario can delete only nodes that it created")
        self._begin("delete node", node=name)
        self._api.delete("nodes", "", name)
        self._made.discard(name)
        self._reported.discard(name)
        self._before.pop(name, None)

    def unregister(self, name: str, *, settle: bool = True) -> None:
        """Delete the Node object of a node. The node, its pods and its proxy keep running."""
        self._need(Ability.REPORT_NODES)
        self._begin("unregister node", node=name)
        self._unregistered[name] = self._api.get("nodes", "", name)
        self._api.delete("nodes", "", name)
        if settle:
            self._backend.settle()

    def recreate(self, name: str, *, zone: str) -> None:
        """Recreate the Node of a running node in a zone, as a kubelet does, without waiting for components."""
        self.unregister(name, settle=False)
        self.register(name, zone=zone, settle=False)

    def register(self, name: str, *, zone: str = "", settle: bool = True) -> None:
        """Recreate the Node object that `unregister` deleted, as the kubelet would. `zone` replaces its former zone."""
        self._begin("register node", node=name, zone=zone)
        lost = self._unregistered.pop(name)
        metadata = {key: each for key, each in lost["metadata"].items() if key in ("name", "labels", "annotations")}
        if zone:
            self._before.setdefault(name, lost)
            metadata["labels"] = {**metadata["labels"], ZONE_LABEL: zone}
        self._api.create("nodes", "", {**lost, "metadata": metadata})
        if settle:
            self._backend.settle()

    def resize(self, name: str, cpu_milli: int) -> None:
        """Report a new allocatable CPU of a ready node (0 means unknown), and make every controller notice it.

        Released controllers reread Nodes only when a Node is added or deleted, or its readiness or zone changes
        (`updateNode` in endpointslice_controller.go). So the node is briefly reported as not ready.
        """
        self.report(name, cpu_milli=cpu_milli, ready=False)
        self.report(name, ready=True)

    def report(self, name: str, *, cpu_milli: int | None = None, ready: Readiness | None = None) -> None:
        """Report a node's readiness, or a new allocatable CPU (0 means unknown), as the kubelet would.

        A `ready` of "Unknown" means that the kubelet stopped reporting. Controllers may ignore a mere CPU change.
        """
        self._need(Ability.REPORT_NODES)
        self._begin("report of node", node=name, cpu_milli=cpu_milli, ready=ready)
        self._remember(name)
        self._reported.add(name)
        self._report(name, _status(cpu_milli, ready))

    def label(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Change labels of a node (`None` removes a label), and wait until components have seen the change.

        Components watch Nodes separately. Without the wait, they might receive later writes to other resources first.
        """
        self._need(Ability.CHANGE_NODES)
        self._begin("label node", node=name, labels=dict(labels))
        self._remember(name)
        own = {key: value for key, value in labels.items() if "kubernetes.io/" not in key}
        for change in (self._variation.before(own), {**labels, **self._variation.of(own)}):
            if change:
                self._backend.part(NodeControl).change_node(name, NodeChange(labels=change))
                self._backend.settle()

    def move(self, name: str, zone: str | None) -> None:
        """Change or remove the zone label of a node, as `label` does."""
        self.label(name, {ZONE_LABEL: zone})

    def taint(self, name: str, *keys: str) -> None:
        """Set the taints of a node to its original taints plus these taints (effect NoSchedule)."""
        self._need(Ability.CHANGE_NODES)
        self._begin("taint node", node=name, keys=list(keys))
        before = self._remember(name)["spec"].get("taints") or []
        taints = [*before, *({"key": key, "effect": "NoSchedule"} for key in keys)]
        self._backend.part(NodeControl).change_node(name, NodeChange(taints=taints))

    def cordon(self, name: str) -> None:
        """Mark a node as unschedulable, as the first step of a drain."""
        self._need(Ability.CHANGE_NODES)
        self._begin("cordon node", node=name)
        self._remember(name)
        self._backend.part(NodeControl).change_node(name, NodeChange(unschedulable=True))

    def stop(self, name: str) -> None:
        """Power off a node abruptly, as in a power failure. Wait until its pods are not ready in the API."""
        self._need(Ability.STOP_NODES)
        if name in self._stopped:
            raise UsageError(f"node {name} is already powered off")
        self._begin("stop node", node=name)
        self._stopped.add(name)
        self._backend.part(NodePower, nodes=[name]).stop_node(name)

    def start(self, name: str) -> None:
        """Power a node on again, and wait until its pods are ready. Raises `UsageError` if it is not powered off."""
        if name not in self._stopped:
            raise UsageError(f"node {name} is not powered off")
        self._begin("start node", node=name)
        self._backend.part(NodePower).start_node(name)
        self._stopped.discard(name)

    def _begin(self, what: str, **facts: Any) -> None:
        self._backend.begin_to_write("nodes")
        self._history.change(what, **facts)

    def restore(self) -> None:
        """Restore the nodes, and wait until components have seen the changes. Raises `InconclusiveError`."""
        changed = bool(self._stopped or self._before or self._made)
        for name in sorted(self._unregistered):
            self.register(name)
        for name in sorted(self._stopped):
            self.start(name)
        for name, before in self._before.items():
            if name in self._made:
                continue
            part_of(self._backend.restored, NodeControl).restore_node(name, before)
            if name in self._reported:  # briefly not ready, so that controllers notice (see `resize`)
                status = {key: before["status"].get(key) for key in _REPORTED}
                self._report(name, {**status, **_status(None, False)})
                self._report(name, status)
        self._before.clear()
        self._reported.clear()
        for name in sorted(self._made):
            self._api.delete("nodes", "", name)
        self._made.clear()
        if changed:
            self._backend.settle()

    def _remember(self, name: str) -> Object:
        """Return the Node object as it was before the scenario first changed it."""
        if name not in self._before:
            self._before[name] = self._api.get("nodes", "", name)
        return self._before[name]

    def _report(self, name: str, status: Mapping[str, Any]) -> None:
        self._api.patch("nodes", "", name, {"status": dict(status)}, subresource="status")


def _status(cpu_milli: int | None, ready: Readiness | None) -> dict[str, Any]:
    allocatable, capacity = (manifests.cpu(cpu_milli), manifests.CAPACITY) if cpu_milli else (None, None)
    cpu = {} if cpu_milli is None else {"allocatable": {"cpu": allocatable}, "capacity": {"cpu": capacity}}
    (condition,) = manifests.node_status(Node("", ""), [], ready=ready is True)["conditions"]
    if ready == "Unknown":
        condition = {**condition, "status": ready, "reason": "NodeStatusUnknown"}
    return cpu | ({} if ready is None else {"conditions": [condition]})
