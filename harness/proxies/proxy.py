"""The protocol of service proxies under test: they run on nodes and report when they have processed all writes.

An adapter knows how to configure a proxy, and how to read its progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from harness.model.release import Release
from harness.netns.namespace import Namespace

if TYPE_CHECKING:  # neither imports a proxy
    from harness.control_planes.control_plane import ControlPlane
    from harness.netns.fabric import Host, Wiring
    from harness.netns.socket_maker import SocketMaker


class Proxy(Protocol):
    """One implementation on the nodes of one cluster. Methods raise `UnavailableError` with the remedy."""

    name: str
    version: str
    """The version in reports; empty if it is the release's."""
    mode: str
    """The kernel mechanism that it programs: nftables, iptables, ipvs, ebpf, or unknown."""

    def setup(self, node: str, namespace: Namespace, release: Release) -> None:
        """Start the proxy of a node, replacing a running one, and wait until it is ready.

        Raises `StartError` with the first error of its log if it does not become ready, and `UnavailableError` if it
        cannot run as this release.
        """

    def stop(self, node: str) -> None:
        """Stop the proxy of a node, if one runs; its rules stay."""

    def close(self) -> None:
        """Stop all proxies and remove their files. Idempotent."""

    def synced(self) -> bool:
        """Return whether every running proxy has processed all writes so far. Raises `EndedError`."""

    def explain(self, node: str, namespace: str, service: str) -> str:
        """Return the decision of a node about a Service and its reason, as far as the proxy reports them."""

    def decisions(self, node: str) -> str:
        """Return all decisions of a node with their reasons; "" if the proxy does not report them."""

    def evidence(self, node: str) -> dict[str, str]:
        """Return rules and logs of a node, as texts by file name."""


@runtime_checkable
class TellsWhatLacks(Protocol):
    """A proxy that reports why `synced` is still false."""

    @property
    def lacking(self) -> str:
        """The node and the check that failed in the last call of `synced`; "" if all held."""


@runtime_checkable
class TellsWhenDone(Protocol):
    """A proxy that may report by itself that it has processed everything."""

    @property
    def tells_when_done(self) -> bool:
        """True if it does; otherwise idleness is the only sign."""


@runtime_checkable
class HasClusterPart(Protocol):
    """A proxy with a part that exists once per cluster, besides the programs on each node."""

    def setup_cluster(self, outside: Host) -> None:
        """Create it before any node is set up; its programs run `outside` of the nodes. Raises `StartError`."""


@runtime_checkable
class WiresPods(Protocol):
    """A proxy that may make the interfaces of pods."""

    @property
    def wiring(self) -> Wiring | None:
        """Attaches pods to nodes with a running proxy; None if the proxy makes no interfaces."""


class Clients(Protocol):
    """Makes the sockets of a cluster's clients."""

    def of(self, host: Host) -> SocketMaker:
        """Return the maker of sockets of a node, or of a pod on it."""


@runtime_checkable
class PlacesClients(Protocol):
    """A proxy whose data plane may depend on the control group of a socket."""

    @property
    def clients(self) -> Clients | None:
        """Makes the sockets of clients; None if only their netns matters."""


MakeProxy = Callable[["ControlPlane", Sequence[str]], Proxy]
"""Makes the proxies of a cluster from its control plane and its pod CIDRs."""
