"""The protocol of service proxies under test: they run on nodes, and tell when they have worked on everything.

kube-proxy, the reference and any other proxy look alike behind this narrow seam. The adapter knows how to configure a
proxy, and how to read its progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from harness.model.release import Release
from harness.netns.namespace import Namespace

if TYPE_CHECKING:  # which in turn need nothing of a proxy
    from harness.control_planes.control_plane import ControlPlane
    from harness.netns.fabric import Host, Wiring
    from harness.netns.socket_maker import SocketMaker


class Proxy(Protocol):
    """One implementation on the nodes of one cluster. Methods raise `UnavailableError` with the remedy."""

    name: str
    version: str
    """The version in reports; empty if it is that of the release."""
    mode: str
    """The kernel mechanism that it programs: nftables, iptables, ipvs, ebpf, or unknown."""

    def setup(self, node: str, namespace: Namespace, release: Release) -> None:
        """Start the proxy of a node, in place of one that runs there, and return when it is ready.

        Raises `StartError` with the first error of its log if it does not get ready, and `UnavailableError` if it
        cannot run as this release.
        """

    def stop(self, node: str) -> None:
        """Stop the proxy of a node, if one runs; its rules stay as they are."""

    def close(self) -> None:
        """Stop all proxies, and leave nothing behind. Idempotent."""

    def synced(self) -> bool:
        """Return whether every running proxy has worked on everything written so far. Raises `EndedError`."""

    def explain(self, node: str, namespace: str, service: str) -> str:
        """Return the decision of a node for a Service and its reason, as far as the proxy tells it."""

    def decisions(self, node: str) -> str:
        """Return all decisions of a node with their reasons; "" if the proxy does not tell them."""

    def evidence(self, node: str) -> dict[str, str]:
        """Return rules and logs of a node, as texts by file name."""


@runtime_checkable
class TellsWhatLacks(Protocol):
    """A proxy that can say why `synced` is not true yet."""

    @property
    def lacking(self) -> str:
        """The node and the check that did not hold in the last look; "" if all held."""


@runtime_checkable
class TellsWhenDone(Protocol):
    """A proxy whose `synced` may rest on what its own programs say, and not on their silence alone."""

    @property
    def tells_when_done(self) -> bool:
        """Whether they say it."""


@runtime_checkable
class HasClusterPart(Protocol):
    """A proxy of which something is there once a cluster, beside what runs on each node."""

    def setup_cluster(self, outside: Host) -> None:
        """Make it, before any node is set up; a program of it runs `outside` of the nodes. Raises `StartError`."""


@runtime_checkable
class WiresPods(Protocol):
    """A proxy that may own the interfaces of pods."""

    @property
    def wiring(self) -> Wiring | None:
        """What attaches pods to nodes that have their proxy; None if it owns no interfaces."""


class Clients(Protocol):
    """Where the clients of a cluster make their sockets."""

    def of(self, host: Host) -> SocketMaker:
        """Return who makes the sockets of a node, or of a pod on it."""


@runtime_checkable
class PlacesClients(Protocol):
    """A proxy whose data plane may look at which control group a socket was made in."""

    @property
    def clients(self) -> Clients | None:
        """Where clients make their sockets; None if their netns is all that counts."""


MakeProxy = Callable[["ControlPlane", Sequence[str]], Proxy]
"""Makes the proxies of a cluster from its control plane and its pod CIDRs."""
