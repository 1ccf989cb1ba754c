"""The EndpointSlice controller: writes the slices that `plan` returns."""

import logging
import time
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from reference.client import ApiError, Client, Event, Key, delete_if_there, key_of
from reference.controller import Controller, is_retriable
from reference.endpointslice.allocation import rules
from reference.endpointslice.cpu_services import CpuHintedServices, EventContent
from reference.endpointslice.endpoints import EndpointCache
from reference.endpointslice.index import ClusterIndex
from reference.endpointslice.metrics import Metrics
from reference.endpointslice.node_level import NodeLevel
from reference.endpointslice.plan import MAX_ENDPOINTS_PER_SLICE, SlicePlan, plan_deleted_service, plan_service
from reference.endpointslice.recorder import record
from reference.endpointslice.status import ConditionWriter
from reference.features import Features
from reference.heuristics import Heuristic, installed_heuristics
from reference.objects.trigger_times import change_times, trigger_time, with_trigger_time

logger = logging.getLogger(__name__)


class SyncError(Exception):
    """If `retriable`, a retry can succeed without other changes. Successive failures of one `topic` cause one Event."""

    def __init__(self, message: str, *, topic: str, retriable: bool) -> None:
        super().__init__(message)
        self.topic = topic
        self.retriable = retriable


class EndpointSliceController(Controller):
    """Creates, updates and deletes EndpointSlices for all Services with a selector. `features` determines the hints.

    Source: KEP-0752, and for hints KEP-2433, KEP-4444 and KEP-3015. Any thread may read the metrics in `registry`.
    """

    def __init__(
        self,
        client: Client,
        *,
        features: Features | None = None,
        max_endpoints_per_slice: int = MAX_ENDPOINTS_PER_SLICE,
        heuristics: Mapping[str, Heuristic] | None = None,
        conditions: bool = False,
        node_level: NodeLevel | None = None,
        plan: Callable[..., SlicePlan] = plan_service,
        status: Callable[..., ConditionWriter] = ConditionWriter,
    ) -> None:
        """`heuristics` maps `trafficDistribution` values to plug-ins; None means the installed plug-ins.

        With `conditions`, the controller reports the state of `trafficDistribution` in the status of each Service
        (KEP-4444, Status Reporting). `node_level` is used with the gate NodeLevelTopology; None means the approach
        `manual`.
        """
        self.registry = CollectorRegistry()
        self._features = features or Features()
        self._max_endpoints = max_endpoints_per_slice
        self._heuristics = installed_heuristics() if heuristics is None else heuristics
        self._node_level = node_level or NodeLevel()
        self._plan_service = plan
        self._index = ClusterIndex(self._features)
        resources = ("services", "pods", "nodes", "endpointslices")
        conditions = conditions and self._features.enabled("ServiceTrafficDistribution")  # older releases lack them
        super().__init__(
            "endpointslice-controller", client, self._index, ("leases", *resources) if conditions else resources
        )
        self._memos: dict[Key, EndpointCache] = {}
        self._change_times: dict[Key, Mapping[str, str]] = {}  # of each Service, at its last successful sync
        self._metrics = Metrics(self._features)
        self.registry.register(self._metrics)
        self._status = status(client, self._index, self._features, self._heuristics) if conditions else None
        if self._status is not None:
            self._queues.append(self._status.work)
        self._cpu_services = CpuHintedServices(rules(self._features))
        self._counting_nodes: set[Key] = set()
        self._judged_nodes = (0, 0)  # what `_nodes_versions` returned at the last check of all Services
        self._reported: dict[Key, str] = {}  # the topic of the last failure with an Event

    def _has_settled(self) -> bool:
        # The order matters: a node change queues Services, and their syncs queue conditions.
        return self._judged_nodes == self._nodes_versions() and super()._has_settled()

    def _work_on_next(self) -> None:
        self._check_nodes()
        super()._work_on_next()
        if self._status is not None:
            self._status.work_on_next()

    def _take_in(self, event: Event) -> None:
        if event.resource != "leases":
            super()._take_in(event)
        if self._status is not None:
            self._status.take_in(event)

    def _nodes_versions(self) -> tuple[int, int]:
        return self._index.zones.version, self._index.nodes_version

    def _check_nodes(self) -> None:
        """After a change of nodes, queue the Services whose hints may also depend on nodes without endpoints."""
        versions = self._nodes_versions()
        if versions == self._judged_nodes or not self._has_state:
            return
        if versions[0] != self._judged_nodes[0]:
            for key in self._cpu_services.affected(self._index.zones.shares):
                self._work.add(key)
        if versions[1] != self._judged_nodes[1]:
            for key in self._counting_nodes:
                self._work.add(key)
        self._judged_nodes = versions

    def _work_on(self, key: Key) -> None:
        logger.debug("Service %s/%s: sync", *key)
        try:
            self._sync(key)
        except SyncError as error:
            logger.info("Service %s/%s: %s", *key, error)
            self._metrics.synced("stale" if error.topic == "Conflict" else "failure")
            self._report(key, error)
            self._work.retry(key, time.monotonic(), retriable=error.retriable)
        except Exception:
            logger.exception("Service %s/%s: the sync failed unexpectedly", *key)
            self._metrics.synced("failure")
            self._work.retry(key, time.monotonic(), retriable=False)
        else:
            self._metrics.synced("success")
            self._reported.pop(key, None)
            if self._status is not None:
                self._status.synced(key)
            self._work.done(key)

    def _sync(self, key: Key) -> None:
        service = self._index.services.get(key)
        existing = self._index.slices.of(key)
        if service is None:
            self._forget(key)
            self._apply(key[0], plan_deleted_service(key[1], existing))
            return
        times = change_times(service, self._index.pods_of(key))
        first_look = key not in self._memos
        plan = self._plan_service(
            service,
            self._index.pods_of(key),
            self._index.nodes,
            existing,
            features=self._features,
            max_endpoints=self._max_endpoints,
            memo=self._memos.setdefault(key, EndpointCache()),
            zones=self._index.zones,
            heuristics=self._heuristics,
            node_level=self._node_level,
        )
        self._follow(key, plan)
        self._apply(key[0], plan, trigger_time(self._change_times.get(key), times))
        self._change_times[key] = times
        self._metrics.applied(plan)
        for notice in self._cpu_services.note(key, plan, first_look=first_look):
            record(self._client, service, notice)
        if plan.failure:
            raise SyncError(plan.failure, topic=plan.failure, retriable=False)

    def _follow(self, key: Key, plan: SlicePlan) -> None:
        self._metrics.planned(key, plan)
        if plan.counts_nodes:
            self._counting_nodes.add(key)
        else:
            self._counting_nodes.discard(key)

    def _forget(self, key: Key) -> None:
        self._memos.pop(key, None)
        self._change_times.pop(key, None)
        self._cpu_services.forget(key)
        self._counting_nodes.discard(key)
        self._metrics.forget(key)

    def _apply(self, namespace: str, plan: SlicePlan, time: str = "") -> None:
        try:
            for each in plan.create:
                made = self._client.create("endpointslices", namespace, with_trigger_time(each, time))
                self._index.slices.written(made)
                self._metrics.wrote("create")
            for each in plan.update:
                made = self._client.update("endpointslices", namespace, with_trigger_time(each, time))
                self._index.slices.written(made)
                self._metrics.wrote("update")
            for each in plan.delete:
                delete_if_there(self._client, "endpointslices", key_of(each))
                self._index.slices.deleted(each)
                self._metrics.wrote("delete")
        except (ApiError, OSError) as error:
            topic = error.reason if isinstance(error, ApiError) else "Unreachable"
            raise SyncError(str(error), topic=topic, retriable=is_retriable(error)) from error

    def _report(self, key: Key, failure: SyncError) -> None:
        if self._status is not None and not failure.retriable:
            self._status.synced(key, str(failure))
        service = self._index.services.get(key)
        if service is None or self._reported.get(key) == failure.topic:
            return
        self._reported[key] = failure.topic
        message = f"Error updating Endpoint Slices for Service {key[0]}/{key[1]}: {failure}"
        record(self._client, service, EventContent("Warning", "FailedToUpdateEndpointSlices", message))
