"""The record in a cluster's Lease that identifies the holder, and the clock that decides when the Lease expires. Times
are from the Date header of responses, so the clocks of machines do not matter. A run on another machine counts as
dead when its Lease has expired. A run on this machine counts as dead when its process has ended. Process ids are
reused, so the name of a process also contains the boot id, the PID namespace, and the start time.
"""

import getpass
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from harness.api.client import Response
from harness.guest.labels import LEASE, NAMESPACE, RUN_LABEL
from harness.netns.process import start_time

SECONDS = 30  # seconds without renewal after which a Lease has expired

PROCESS_ANNOTATION = "trafficdist.dev/process"

_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease's content. `process` is the holder's `process_name`, and `version` the resourceVersion."""

    run: str
    holder: str
    since: datetime
    renewed: datetime
    seconds: int = SECONDS
    process: str = ""
    version: str = ""

    @property
    def expires(self) -> datetime:
        try:
            return self.renewed + timedelta(seconds=self.seconds)
        except OverflowError:
            return datetime.max.replace(tzinfo=UTC)

    def lease(self) -> dict[str, Any]:
        """Return the Lease object with this content. It replaces only a Lease whose resourceVersion is `version`."""
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
        ago = max(0, round((now - self.renewed).total_seconds()))
        return f"run {self.run} of {self.holder}, since {self.since:%Y-%m-%d %H:%M:%S} UTC, last renewed {ago} s ago"


def lease_record_of(lease: Mapping[str, Any]) -> LeaseRecord:
    """Return the record in a Lease. Missing fields get defaults, and a missing time is the earliest possible time."""
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


def moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _time(text: Any) -> datetime:
    return moment(text) or datetime.fromtimestamp(0, UTC)


class ServerClock:
    """The API server's clock, accurate to one second. Before the first response, it shows this machine's time."""

    def __init__(self) -> None:
        self._server_time = datetime.now(UTC)
        self._at = time.monotonic()
        self.ahead = timedelta()

    def saw(self, response: Response) -> Response:
        """Set the clock from the Date header of a response, and return the response."""
        try:
            date = parsedate_to_datetime(response.date)
        except ValueError:
            return response
        self._server_time, self._at = date, time.monotonic()
        self.ahead = date - datetime.now(UTC)
        return response

    def now(self) -> datetime:
        return self._server_time + timedelta(seconds=time.monotonic() - self._at)


def identity() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as in containers
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()} pid {os.getpid()}"


def process_name() -> str:
    """Return the name of this process, in the form that `has_ended` expects."""
    return f"{_place()} {os.getpid()} {start_time(os.getpid())}"


def has_ended(named: str) -> bool:
    """Return True if it is certain that the process of this `process_name` ran on this machine and has ended."""
    pid, _, began = named.partition(" ")[2].partition(" ")
    return is_of_here(named) and pid.isdecimal() and began.isdecimal() and start_time(int(pid)) != int(began)


def is_of_here(named: str) -> bool:
    """Return whether the process of this `process_name` belongs to this machine's current boot and PID namespace."""
    place = _place()
    return bool(place) and named.partition(" ")[0] == place


def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # not Linux, or /proc hides the process
        return ""
