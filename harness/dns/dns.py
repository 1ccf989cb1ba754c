"""The interface of a cluster DNS server under test, which runs in a pod."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from harness.netns.fabric import NetworkPeer

if TYPE_CHECKING:  # this module does not import a DNS library
    from harness.control_planes.control_plane import ControlPlane

ZONE = "cluster.local"
PORT = 53


class ClusterDns(Protocol):
    """A DNS server, with a PodLocator controller if it needs one. Methods raise `UnavailableError`."""

    name: str

    def start(self, pod: NetworkPeer) -> None:
        """Serve DNS over UDP and TCP on port 53 of all addresses of a pod. Call this method only once."""

    def stop(self) -> None:
        """Stop the server and the controller. PodLocators are not deleted. Idempotent."""

    def synced(self) -> bool:
        """Return whether the server has processed all writes so far. Raises `EndedError` if it has exited."""

    def evidence(self) -> dict[str, str]:
        """Return the server's log and configuration as a mapping from file name to content."""


@runtime_checkable
class WritesPodLocators(Protocol):
    def locators_synced(self) -> bool:
        """Return whether the controller has processed all writes, or has been stopped. Raises `EndedError`."""

    def start_locators(self) -> None:
        """Start a new controller. It replaces the previous controller, which may be running or stopped."""

    def stop_locators(self) -> None:
        """Stop the controller. PodLocators are not deleted."""


MakeDns = Callable[["ControlPlane"], ClusterDns]
