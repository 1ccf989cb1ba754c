"""The record in the Lease of a cluster that says who holds it, and the clock by which it expires.

Times are those of the API server, told by the Date of its answers, so that it does not matter how wrong the clocks of
two machines are. A run that was killed on this machine is known to be dead at once, by what the Lease says of its
process; of one elsewhere that can only be said when it has not renewed for as long as the Lease lasts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from harness.api.client import Response
from harness.guest.labels import LEASE, NAMESPACE, RUN_LABEL

SECONDS = 30
"""After so many seconds without renewal a Lease has expired."""

PROCESS_ANNOTATION = "trafficdist.dev/process"

_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a Lease says. `process` is the holder as `harness.guest.process` names it, and `version` of the object."""

    run: str
    holder: str
    since: datetime
    renewed: datetime
    seconds: int = SECONDS
    process: str = ""
    version: str = ""

    @property
    def expires(self) -> datetime:
        """The time at which it expires, unless it is renewed."""
        return self.renewed + timedelta(seconds=self.seconds)

    def lease(self) -> dict[str, Any]:
        """The Lease that says this; written only over the `version` that was read."""
        metadata: dict[str, Any] = {
            "name": LEASE,
            "namespace": NAMESPACE,
            "labels": {RUN_LABEL: self.run},
            "annotations": {PROCESS_ANNOTATION: self.process},
        }
        if self.version:
            metadata["resourceVersion"] = self.version
        spec = {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.seconds,
            "acquireTime": self.since.strftime(_MICRO_TIME),
            "renewTime": self.renewed.strftime(_MICRO_TIME),
        }
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    def described(self, now: datetime) -> str:
        """Return who holds it, since when, and when it was last renewed."""
        ago = max(0, round((now - self.renewed).total_seconds()))
        return f"run {self.run} of {self.holder}, since {self.since:%Y-%m-%d %H:%M:%S} UTC, last heard of {ago} s ago"


def lease_record_of(lease: Mapping[str, Any]) -> LeaseRecord:
    """Return the record in a Lease; a field that it does not have is empty, or as long ago as can be."""
    metadata, spec = lease["metadata"], lease.get("spec") or {}
    return LeaseRecord(
        run=str((metadata.get("labels") or {}).get(RUN_LABEL) or "?"),
        holder=str(spec.get("holderIdentity") or "nobody"),
        since=_time(spec.get("acquireTime")),
        renewed=_time(spec.get("renewTime")),
        seconds=int(spec.get("leaseDurationSeconds") or SECONDS),
        process=str((metadata.get("annotations") or {}).get(PROCESS_ANNOTATION) or ""),
        version=str(metadata.get("resourceVersion") or ""),
    )


def _time(text: Any) -> datetime:
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


class ServerClock:
    """Exact to a second, and to as long as an answer takes; this machine's clock until there was an answer."""

    def __init__(self) -> None:
        self._server_time = datetime.now(UTC)
        self._at = time.monotonic()
        self.ahead = timedelta()

    def saw(self, response: Response) -> Response:
        """Set the clock by the Date of an answer, and return the answer."""
        try:
            date = parsedate_to_datetime(response.date)
        except ValueError:
            return response
        self._server_time, self._at = date, time.monotonic()
        self.ahead = date - datetime.now(UTC)
        return response

    def now(self) -> datetime:
        """Return the time on the server's clock."""
        return self._server_time + timedelta(seconds=time.monotonic() - self._at)
