"""Wait until EndpointSlices stop changing, because controllers of a real cluster do not report when they are done.

Otherwise a late write for an earlier change would count as the controller's response to the next change.
"""

from __future__ import annotations

import time

from harness import eventually
from harness.api.client import Api

QUIET = 0.3  # seconds, before the time scale, without a write
LONGEST = 10.0  # seconds, before the time scale; endless writes are a fault that scenarios detect


class StableSlices:
    """Waits for the slices of scenarios that judge a controller. Slices of other scenarios are ignored."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._namespaces: set[str] = set()
        self._written = 0

    def begin(self, namespace: str) -> None:
        """Watch the slices of this namespace from now on."""
        self._namespaces.add(namespace)

    def end(self, namespace: str) -> None:
        """Ignore the slices of this namespace from now on."""
        self._namespaces.discard(namespace)

    def wait(self) -> None:
        """Wait until no slice has changed for `QUIET`, at most for `LONGEST`. Does not wait without new writes."""
        if not self._namespaces or self._api.writes == self._written:
            return
        last, since = "", time.monotonic()

        def rests(seen: str) -> bool:
            nonlocal last, since
            if seen != last:
                last, since = seen, time.monotonic()
            return time.monotonic() - since >= QUIET * eventually.time_scale()

        eventually.last_value(self._versions, rests, within=LONGEST, every=0.03, describe="slices without new writes")
        self._written = self._api.writes

    def _versions(self) -> str:
        found = [
            each["metadata"] for name in sorted(self._namespaces) for each in self._api.list("endpointslices", name)
        ]
        return " ".join(sorted(f"{each['uid']}:{each['resourceVersion']}" for each in found))
