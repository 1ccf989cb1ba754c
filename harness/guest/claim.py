"""Who holds the Lease of a cluster: the value, and what follows from it, without a clock of its own.

Times are those of the API server, so that it does not matter how wrong the clocks of two machines are. A run that was
killed on this machine is known to be dead at once, by what the Lease says of its process; of one elsewhere that can
only be said when it has not renewed for as long as the Lease lasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from harness.guest.marks import LEASE, NAMESPACE, RUN_LABEL

SECONDS = 30
"""After so many seconds without renewal a Lease has expired."""

PROCESS_ANNOTATION = "trafficdist.dev/process"

_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True, slots=True)
class Claim:
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
        """When it has expired, unless it is renewed."""
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
        """Who it is, since when, and when it was last heard of."""
        ago = max(0, round((now - self.renewed).total_seconds()))
        return f"run {self.run} of {self.holder}, since {self.since:%Y-%m-%d %H:%M:%S} UTC, last heard of {ago} s ago"


def claim_of(lease: Mapping[str, Any]) -> Claim:
    """What a Lease says; a field that it does not have is empty, or as long ago as can be."""
    metadata, spec = lease["metadata"], lease.get("spec") or {}
    return Claim(
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
