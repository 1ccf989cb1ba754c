"""No controller of a real cluster tells when it is done. So slices are waited for until nobody writes them any more.

What it still writes for an earlier change would be taken for its answer to the next one.
"""

from __future__ import annotations

import time

from harness import eventually
from harness.api.client import Api

QUIET = 0.3  # seconds, before the time scale, without a write
LONGEST = 10.0  # seconds, before the time scale: who writes without end is judged for it


class StableSlices:
    """Waits for the slices of scenarios about a controller."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._namespaces: set[str] = set()
        self._written = 0

    def begin(self, namespace: str) -> None:
        """Wait for the slices of this namespace too, from now on."""
        self._namespaces.add(namespace)

    def end(self, namespace: str) -> None:
        """Wait for them no more."""
        self._namespaces.discard(namespace)

    def wait(self) -> None:
        """Return when no slice has changed for `QUIET`, or after `LONGEST`; at once if nothing was written since."""
        if not self._namespaces or self._api.writes == self._written:
            return
        last, since = "", time.monotonic()

        def rests(seen: str) -> bool:
            nonlocal last, since
            if seen != last:
                last, since = seen, time.monotonic()
            return time.monotonic() - since >= QUIET * eventually.time_scale()

        eventually.seen_last(self._versions, rests, within=LONGEST, every=0.03, describe="slices that nobody writes")
        self._written = self._api.writes

    def _versions(self) -> str:
        found = [
            each["metadata"] for name in sorted(self._namespaces) for each in self._api.list("endpointslices", name)
        ]
        return " ".join(sorted(f"{each['uid']}:{each['resourceVersion']}" for each in found))
