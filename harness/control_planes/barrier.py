"""Reports whether kube-controller-manager has processed all earlier writes, with the help of barrier objects.

The controller watches Services, Pods and Nodes separately, and processes one queue in order. The barrier owns one
object of each kind, and changes them after all other writes. When the barrier's EndpointSlice reflects all three
changes, the controller has received all earlier writes. The controller briefly batches pod events, and retries a failed
sync after a second, so the barrier then waits until the queue is empty and no retry is pending.

If the node's change arrives last, the slice shows the old zone until the next sync, so the barrier changes its Service
again. The barrier changes its node only after another node has changed, because a changed node may make the controller
sync other Services, and the harness must not cause such a sync. The only exception is `Nodes.resize`, because
controllers would not notice a change of a node's CPU without a sync. Proxies ignore the barrier's headless Service.
Topology heuristics ignore its Node, which has a control plane label.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from harness.api.client import Api, Object, RefusedError
from harness.errors import InconclusiveError
from harness.eventually import NotYetError, eventually
from harness.model import manifests
from harness.model.topology import ZONE_LABEL

GATHERING = 0.03  # seconds for which the controller batches pod changes
_MARGIN = 0.01  # seconds to wait in addition to `GATHERING`
_RETRY = 1.1  # slightly longer than the delay of the controller's first retry, in seconds
_ARRIVAL = 1.0  # seconds to wait for the barrier's slice before a retry, before `time_scale` is applied

_NAME = "trafficdist-barrier"
_ADDRESS = "10.246.0.1"
_ROUND = "trafficdist.dev/round"
_AGAIN = "trafficdist.dev/again"
_LABELS = {"app": _NAME}
_SAMPLE = re.compile(r'^(workqueue_\w+)\{name="endpoint_slice"\} (\S+)$', re.MULTILINE)
_FAILED = re.compile(r'"Error syncing endpoint slices for service, retrying".* key="([^"]+)"')
_ITS_CHANGES = (
    re.compile(
        r"^(endpoint_slice_controller_endpointslices_changed_per_sync_sum"
        r'\{topology="Disabled",traffic_distribution=""\}) (\S+)$',
        re.MULTILINE,
    ),
    re.compile(r'^(endpoint_slice_controller_changes(?:_total)?\{operation="update"\}) (\S+)$', re.MULTILINE),
)


class ControllerBarrier:
    def __init__(self, kubeconfig: Mapping[str, Any], scrape: Callable[[], str], log: Callable[[], str]) -> None:
        """`scrape` returns the controller's metrics or raises `InconclusiveError`. `log` returns new log lines."""
        self._api = Api(kubeconfig)
        self._scrape = scrape
        self._log = log
        self._nodes: dict[str, str] = {}
        self._zone = ""
        self._round = 0
        self._agains = 0
        self._revision = ""  # resource version of the API server when everything was processed
        self._failed_at = 0.0  # time of the last failed sync of another Service
        self._generation = 0  # generation of the barrier's slice when this controller started
        self._written = 0

    def close(self) -> None:
        self._api.close()

    def passed(self) -> bool:
        """Return whether the controller has processed all earlier writes. Raises `InconclusiveError`."""
        revision, nodes = self._look()
        if self._revision and self._revision == revision:
            return True
        try:
            if not self._round:
                self._create()
            elif not self._arrived():  # one round at a time, because the pod has only two states
                self._trigger_sync()
                self._wait()
            self._send(nodes)
            self._wait()
        except NotYetError:
            return False
        except RefusedError as error:
            raise InconclusiveError(f"cannot wait for the controller: {error}") from error
        time.sleep(GATHERING + _MARGIN)
        return self._is_idle()

    def _wait(self) -> None:
        eventually(self._arrived, within=_ARRIVAL, every=0.003, describe="the barrier's changes to appear in its slice")

    def without_barrier(self, text: str) -> str:
        """Return the metrics without the effect of the barrier's own writes."""
        for pattern in _ITS_CHANGES:
            text = pattern.sub(lambda found: f"{found[1]} {float(found[2]) - self._written:g}", text)
        return text

    def _look(self) -> tuple[str, dict[str, str]]:
        """Return the resource versions of the node list and of each node except the barrier's node."""
        listed = self._api.request("GET", "/api/v1/nodes").body
        nodes = (each["metadata"] for each in listed.get("items") or ())
        revision = str((listed.get("metadata") or {}).get("resourceVersion", ""))
        return revision, {each["name"]: each["resourceVersion"] for each in nodes if each["name"] != _NAME}

    def _create(self) -> None:
        node = {"metadata": {"name": _NAME, "labels": {"node-role.kubernetes.io/control-plane": "", ZONE_LABEL: "0"}}}
        service = manifests.service(
            _NAME, selector=_LABELS, clusterIP="None", ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack"
        )
        for resource, obj in (
            ("namespaces", {"metadata": {"name": _NAME}}),
            ("nodes", node),
            ("pods", manifests.pod(_NAME, _NAME, labels=_LABELS)),
            ("services", service),
        ):
            self._create_one(resource, obj)
        slices = self._slices()
        self._generation = int(slices[0]["metadata"]["generation"]) if slices else 1
        labels = self._api.get("services", _NAME, _NAME)["metadata"].get("labels") or {}
        self._round = int(labels.get(_ROUND, "0"))

    def _create_one(self, resource: str, obj: Object) -> None:
        try:
            self._api.create(resource, _NAME, obj)
        except RefusedError as error:
            if error.response.code != 409:
                raise

    def _send(self, nodes: dict[str, str]) -> None:
        self._round += 1
        mark = str(self._round)
        if nodes != self._nodes or not self._zone:
            self._nodes, self._zone = nodes, mark
            self._api.patch("nodes", "", _NAME, {"metadata": {"labels": {ZONE_LABEL: mark}}})
        status = manifests.pod_status({"IPv4": _ADDRESS}, "192.0.2.1", ready=self._ready)
        self._api.patch("pods", _NAME, _NAME, {"status": status}, subresource="status")
        self._api.patch("services", _NAME, _NAME, {"metadata": {"labels": {_ROUND: mark}}})

    def _trigger_sync(self) -> None:
        self._agains += 1
        self._api.patch("services", _NAME, _NAME, {"metadata": {"annotations": {_AGAIN: str(self._agains)}}})

    @property
    def _ready(self) -> bool:
        """The pod's readiness, which alternates between rounds. A new address would count as two changed endpoints."""
        return self._round % 2 == 0

    def _slices(self) -> list[Object]:
        return self._api.list("endpointslices", _NAME, label_selector=f"kubernetes.io/service-name={_NAME}")

    def _arrived(self) -> bool:
        for each in self._slices():
            labels, endpoints = each["metadata"].get("labels") or {}, each.get("endpoints") or []
            shown = [(endpoint["conditions"].get("ready"), endpoint.get("zone")) for endpoint in endpoints]
            if labels.get(_ROUND) == str(self._round) and shown == [(self._ready, self._zone)]:
                self._written = int(each["metadata"]["generation"]) - self._generation
                return True
        return False

    def _is_idle(self) -> bool:
        revision, _ = self._look()
        if any(not key.startswith(f"{_NAME}/") for key in _FAILED.findall(self._log())):
            self._failed_at = time.monotonic()
        if time.monotonic() - self._failed_at < _RETRY:
            return False
        counts = {name: float(value) for name, value in _SAMPLE.findall(self._scrape())}
        idle = counts["workqueue_adds_total"] == counts["workqueue_work_duration_seconds_count"]
        self._revision = revision if idle else ""
        return idle
