"""Reads kube-proxy's progress from its log, and writes barrier objects that appear in this log.

Metrics cannot distinguish a sync that began before a change arrived from a sync that includes the change. The log shows
how long each sync took. The lines of versions 1.29 to 1.37 at verbosity 4 are (before 1.31, without ipFamily):

    "Skipping service due to ..." service="trafficdist-barrier/c-7"      it has processed this Service
    "Error getting endpoint slice cache keys" err="... endpoint slice: c-7"    it has processed this EndpointSlice
    "Syncing nftables rules" ipFamily="IPv4"                             a sync has begun with all changes so far
    "SyncProxyRules complete" ipFamily="IPv4" elapsed="21.6ms"           this sync has ended: the kernel has its rules
    "Updated proxier node topology labels" labels={...}                  it has received its node's labels
"""

import datetime
import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path

from harness.api.client import Api, path_of
from harness.errors import InconclusiveError

NAMESPACE = "trafficdist-barrier"

_LINE = re.compile(
    r"^I(?P<when>\d{4} \d\d:\d\d:\d\d\.\d+)[^\n]*?\] (?:"
    rf'"Skipping service due to[^\n]*?service="{NAMESPACE}/(?P<service>[^"]+)"'
    r'|"Error getting endpoint slice cache keys"[^\n]*endpoint ?slice: (?P<slice>[^"\s]+)"'
    r'|"Syncing (?P<begun>iptables|nftables|ipvs)[^\n]*?rules"(?P<rest>[^\n]*)'
    r'|"[Ss]yncProxyRules complete"(?: ipFamily="(?P<family>\w+)")?[^\n]*? elapsed="(?P<elapsed>[^"]+)"'
    r'|"Updated proxier node (?:topology )?labels"[^\n]*? labels=(?P<labels>\{[^\n]*\}|null)'
    r")",
    re.MULTILINE,
)
_FAMILY = re.compile(r'ipFamily="(\w+)"')
_DURATION = re.compile(r"([\d.]+)(h|ms|m|s|µs|us|ns)")
_WITHOUT_IP = {"type": "ExternalName", "externalName": "barrier.invalid"}
_WITHOUT_ENDPOINTS = {"addressType": "IPv4", "endpoints": [], "ports": []}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}


@dataclass(slots=True)
class SyncTimes:
    """The syncs of one IP family, or of both. `began` and `ended` are the last start and end times (Unix time)."""

    under_way: int = 0
    began: float = 0.0
    ended: float = 0.0


class LogFollower:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._partial = ""
        self.services: set[str] = set()
        self.slices: set[str] = set()
        self.syncs: dict[str, SyncTimes] = {}
        self.labels: dict[str, str] | None = None  # labels of the proxy's node, as the proxy last saw them
        self.labels_at = 0.0  # when the proxy first logged the labels (Unix time); it then queues syncs

    def update(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            new = file.read()
        self._offset += len(new)
        text = self._partial + new.decode(errors="replace")
        whole, newline, self._partial = text.rpartition("\n")
        for found in _LINE.finditer(whole + newline):
            self._take(found)

    def forget_barrier_objects(self) -> None:
        self.services.clear()
        self.slices.clear()

    def _take(self, found: re.Match[str]) -> None:
        if found["service"]:
            self.services.add(found["service"])
        elif found["slice"]:
            self.slices.add(found["slice"])
        elif found["labels"]:
            labels = json.loads(found["labels"]) or {}
            if labels != self.labels:  # the first IP family logged them; each family then queues a sync
                self.labels, self.labels_at = labels, _moment(found["when"])
        elif found["begun"]:
            family = _FAMILY.search(found["rest"])
            self._of(family[1] if family else "").under_way += 1
        else:
            syncs = self._of(found["family"] or "")
            syncs.under_way -= 1
            syncs.ended = _moment(found["when"])
            syncs.began = max(syncs.began, syncs.ended - _seconds(found["elapsed"]))

    def _of(self, family: str) -> SyncTimes:
        return self.syncs.setdefault(family, SyncTimes())


def _moment(text: str) -> float:
    """Parse klog's "1121 08:36:46.123456", in UTC and in the current year, as Unix time."""
    year = datetime.datetime.now(datetime.UTC).year
    return datetime.datetime.strptime(f"{year}{text}+0000", "%Y%m%d %H:%M:%S.%f%z").timestamp()


def _seconds(duration: str) -> float:
    """Parse a Go duration: "1m2.5s", "21.6ms"."""
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(duration))


class BarrierObjects:
    """Writes Services and EndpointSlices that change no rule. A proxy that logs them has seen all earlier writes."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._numbers = itertools.count(1)
        self._last = ""

    def revision(self) -> str:
        """Return the API server's resource version, which each write increases, or "" if it does not answer."""
        try:
            listed = self._api.request("GET", path_of("services"), query={"limit": "1"})
        except InconclusiveError:
            return ""
        return str((listed.body.get("metadata") or {}).get("resourceVersion") or "")

    def write(self) -> tuple[str, str]:
        """Write a new Service and EndpointSlice. Return their name and the slice's resource version, or ("", "")."""
        name = f"c-{next(self._numbers)}"
        try:
            if not self._last:
                self._api.request("POST", path_of("namespaces"), {"metadata": {"name": NAMESPACE}})  # may be there
            else:
                self._api.delete("services", NAMESPACE, self._last)
                self._api.delete("endpointslices", NAMESPACE, self._last)
            self._api.create("services", NAMESPACE, {"metadata": {"name": name}, "spec": _WITHOUT_IP})
            written = self._api.create("endpointslices", NAMESPACE, {"metadata": {"name": name}, **_WITHOUT_ENDPOINTS})
        except InconclusiveError:
            return "", ""
        self._last = name
        return name, str(written["metadata"]["resourceVersion"])
