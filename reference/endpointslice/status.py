"""Writes the conditions of Services when the conditions change.

This module runs in the thread that syncs slices. It has its own queue, because acknowledgements can change conditions
without a sync. Conditions are based on the objects that the API server stores. Services that never had
`trafficDistribution` are skipped. A Service that loses its trafficDistribution without a new resourceVersion is also
skipped: the API server's release lacks the field, and a write would delete the stored value. Acknowledgements are
processed in batches, because otherwise each change of hints would cost one write for each node.
"""

import logging
import time
from collections.abc import Collection

from reference.client import ApiError, Client, Event, Key, Object, key_of
from reference.controller import WorkQueue
from reference.endpointslice import conditions
from reference.endpointslice.conditions import Condition
from reference.endpointslice.hints import mechanism, mechanism_of_field
from reference.endpointslice.index import ClusterIndex
from reference.endpointslice.plan import selects_pods
from reference.features import Features
from reference.objects.acknowledgement_lease import node_of, revision_of
from reference.objects.endpoints import any_hints
from reference.objects.timestamps import timestamp

BATCH_SECONDS = 0.02
_ATTEMPTS = 5
_NOT_OURS = "the Service has no selector, so another client writes its slices"

logger = logging.getLogger(__name__)


class ConditionWriter:
    """Writes the conditions of all Services with a trafficDistribution. Not thread-safe."""

    def __init__(self, client: Client, index: ClusterIndex, features: Features, heuristics: Collection[str]) -> None:
        self._client, self._index, self._features, self._heuristics = client, index, features, heuristics
        self._revisions: dict[str, int] = {}  # the latest resource version that each node has acknowledged
        self._failures: dict[Key, str] = {}
        self._followed: dict[Key, bool] = {}  # whether all nodes are known to honor the hints
        self._had_value: dict[Key, str] = {}  # the last resourceVersion with trafficDistribution
        self.work = WorkQueue()

    def take_in(self, event: Event) -> None:
        """Queue the Services whose conditions the event may change. `synced` queues Services after their syncs."""
        if event.type == "SYNCED":
            self._queue_all(at_once=True)
        elif event.resource == "leases":
            if self._acknowledge(event):
                self._queue_all(at_once=False, only_waiting=event.type != "DELETED")
        elif event.resource == "nodes" and event.type != "MODIFIED":
            self._queue_all(at_once=False)
        elif event.resource == "services" and key_of(event.object) in self._followed:
            self.work.add(key_of(event.object))

    def synced(self, key: Key, failure: str = "") -> None:
        """Queue a Service whose slices were synced, or whose sync failed permanently."""
        service = self._index.services.get(key)
        present = ((service or {}).get("status") or {}).get("conditions") or ()
        has_ours = any(each.get("type") in conditions.TYPES for each in present)
        if service is None or not (self._value(service) or has_ours):
            self._forget(key)
            return
        self._followed.setdefault(key, False)
        self._failures[key] = failure
        self.work.add(key)

    def work_on_next(self) -> None:
        """Write the conditions of the next Service in the queue, if one is due."""
        key = self.work.pop(time.monotonic())
        if key is None:
            return
        try:
            self._bring_up_to_date(key)
        except (ApiError, OSError) as error:
            logger.info("Service %s/%s: conditions not written: %s", *key, error)
            self.work.retry(key, time.monotonic(), retriable=not isinstance(error, ApiError) or error.code >= 409)
        except Exception:
            logger.exception("Service %s/%s: conditions not written", *key)
            self.work.retry(key, time.monotonic(), retriable=False)
        else:
            self.work.done(key)

    def _queue_all(self, *, at_once: bool, only_waiting: bool = False) -> None:
        due = time.monotonic() + (0 if at_once else BATCH_SECONDS)
        for key, is_honored in self._followed.items():
            if not (only_waiting and is_honored):
                self.work.add_at(key, due)

    def _bring_up_to_date(self, key: Key) -> None:
        service = self._index.services.get(key)
        for _ in range(_ATTEMPTS):
            if service is None:
                self._forget(key)
                return
            wanted = self._wanted(key, service)
            if not wanted and self._had_value.get(key) == service["metadata"].get("resourceVersion"):
                return
            status = service.get("status") or {}
            generation = service["metadata"].get("generation")
            present = status.get("conditions") or ()
            result = conditions.merged(present, wanted, generation=generation, now=timestamp())
            if result is None or self._write(service, {**status, "conditions": result}):
                break
            service = self._read(key)
        else:
            raise OSError("another client keeps changing the Service")
        if not wanted:
            self._forget(key)

    def _wanted(self, key: Key, service: Object) -> list[Condition]:
        if not self._value(service):
            return []
        self._had_value[key] = service["metadata"].get("resourceVersion", "")
        decided_by = mechanism(service, self._features, self._heuristics)
        accepted = conditions.accepted(mechanism_of_field(service, self._features, self._heuristics))
        slices = self._index.slices.of(key)
        failure = self._failures.get(key, "") if selects_pods(service) else _NOT_OURS
        programmed = conditions.programmed(accepted, decided_by, slices, failure)
        revision = max((int(each["metadata"]["resourceVersion"]) for each in slices if any_hints(each)), default=0)
        behind = [node for node in self._index.nodes if self._revisions.get(node, revision) < revision]
        silent = [node for node in self._index.nodes if node not in self._revisions]
        honored = conditions.honored(programmed, behind, silent)
        self._followed[key] = honored.status == "True"
        return [accepted, programmed, honored]

    def _value(self, service: Object) -> str:
        """Return `trafficDistribution`, or "" if it is unset or this controller's release does not have the field."""
        if not self._features.enabled("ServiceTrafficDistribution"):
            return ""
        return str(service["spec"].get("trafficDistribution") or "")

    def _write(self, service: Object, status: Object) -> bool:
        """Write the status. Return False if the Service has changed since it was read."""
        try:
            written = self._client.update_status(
                "services", service["metadata"]["namespace"], {**service, "status": status}
            )
        except ApiError as error:
            if error.code not in {404, 409}:
                raise
            return False
        if self._value(written):
            self._had_value[key_of(written)] = written["metadata"]["resourceVersion"]
        return True

    def _read(self, key: Key) -> Object | None:
        try:
            return self._client.get("services", *key)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def _forget(self, key: Key) -> None:
        self._followed.pop(key, None)
        self._failures.pop(key, None)
        self._had_value.pop(key, None)

    def _acknowledge(self, event: Event) -> bool:
        node = node_of(event.object)
        if not node:
            return False
        before = self._revisions.pop(node, None)
        now = None if event.type == "DELETED" else revision_of(event.object)
        if now is not None:
            self._revisions[node] = now
        return now != before
