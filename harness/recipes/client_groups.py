"""Control groups of clients: those of pods, each of its own, below that of their node, as a kubelet makes them.

For data planes that work at sockets: what they attach to the control group of a node is run for its clients, and each
pod is another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from harness.netns.fabric import Host
from harness.netns.isolation import Room
from harness.netns.socket_maker import SocketMaker

OF_PODS = "pods"


class ClientGroups:
    """Where clients make their sockets: a process in the control group of the pod, or of the node."""

    def __init__(self, room_of: Callable[[str], Room]) -> None:
        """`room_of` returns the room of a node."""
        self._room_of = room_of
        self._lock = threading.Lock()
        self._makers: dict[Host, SocketMaker] = {}

    def of(self, host: Host) -> SocketMaker:
        """Return who makes the sockets of a node, or of a pod on it."""
        with self._lock:
            for gone in [each for each in self._makers if each.namespace.closed]:
                self._makers.pop(gone).close()
            if host not in self._makers:
                group = f"{OF_PODS}/{host.name}" if host.name != host.node else ""
                self._makers[host] = SocketMaker(host.namespace, self._room_of(host.node), group)
            return self._makers[host]

    def close(self) -> None:
        """End all processes. Idempotent."""
        with self._lock:
            while self._makers:
                self._makers.popitem()[1].close()
