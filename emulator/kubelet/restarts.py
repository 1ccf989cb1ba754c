"""When a container is started again: by its pod's policy, at once for the first time, then after growing pauses.

Source: the documentation of the pod lifecycle (container restarts), and kubelet's back-off of 1.37.
"""

from __future__ import annotations

_FIRST, _LONGEST = 10.0, 300.0  # seconds
_WELL = 2 * _LONGEST  # who has run for so long begins anew


class Restarts:
    """The restarts of one container."""

    def __init__(self, policy: str) -> None:
        """`policy` is the pod's restartPolicy: Always, OnFailure or Never."""
        self._policy = policy
        self._next = 0.0

    def again(self, code: int) -> bool:
        """Return whether a container that ended with this exit code is started again."""
        return self._policy == "Always" or (self._policy == "OnFailure" and code != 0)

    def pause(self, ran: float) -> float:
        """Return the seconds until the next start of one that has run for `ran` seconds."""
        if ran >= _WELL:
            self._next = 0.0
        pause, self._next = self._next, min(2 * self._next, _LONGEST) or _FIRST
        return pause
