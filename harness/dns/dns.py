"""The protocol of a cluster DNS server under test: it runs in a pod, and may know the locations of pods.

A topology-aware DNS server reads the locations from PodLocators (KEP-536), so it includes their controller: neither is
useful without the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from harness.netns.fabric import Host

if TYPE_CHECKING:  # this module imports no DNS library
    from harness.control_planes.control_plane import ControlPlane

ZONE = "cluster.local"
PORT = 53


class ClusterDns(Protocol):
    """A DNS server, with a PodLocator controller if it needs one. Methods raise `UnavailableError` with the remedy."""

    name: str

    def start(self, pod: Host) -> None:
        """Serve at port 53 of all addresses of a pod, by UDP and TCP. Called once."""

    def stop(self) -> None:
        """Stop server and controller; PodLocators stay. Idempotent."""

    def synced(self) -> bool:
        """Return whether all writes so far are processed. Raises `EndedError` if it has exited on its own."""

    def evidence(self) -> dict[str, str]:
        """Return its log and configuration, as texts by file name."""


@runtime_checkable
class KeepsLocators(Protocol):
    """A DNS with a controller that writes PodLocators."""

    def locators_synced(self) -> bool:
        """Return whether the controller has processed all writes so far; True if it is stopped.

        Raises `EndedError` if it has ended on its own.
        """

    def start_locators(self) -> None:
        """Run a new controller, replacing one that runs or is stopped."""

    def stop_locators(self) -> None:
        """Stop the controller; PodLocators stay."""


MakeDns = Callable[["ControlPlane"], ClusterDns]
"""Makes the DNS of a cluster."""
