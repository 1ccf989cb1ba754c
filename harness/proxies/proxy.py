"""What the harness asks of a service proxy under test: to run on nodes, and to say when it has worked on everything.

The narrow seam behind which kube-proxy, the reference and anybody's own proxy look alike. How a proxy is reached, what
it is given and what it tells are matters of its adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from harness.model.release import Release
from harness.netns.namespace import Namespace

if TYPE_CHECKING:  # which in turn need nothing of a proxy
    from harness.control_planes.control_plane import ControlPlane


class Proxy(Protocol):
    """One implementation on the nodes of one cluster. Methods raise `UnavailableError` with the remedy."""

    name: str
    version: str
    """As in reports; empty where it is that of the release."""
    mode: str
    """The kernel mechanism that it programs: nftables, iptables, ipvs, ebpf, or unknown."""

    def setup(self, node: str, namespace: Namespace, release: Release) -> None:
        """Start the proxy of a node, in place of one that runs there, and return when it is ready.

        Raises `DistrustError` with the end of its log when it does not get there, and `UnavailableError` when it cannot
        be of this release.
        """

    def stop(self, node: str) -> None:
        """Stop the proxy of a node, if one runs; its rules stay as they are."""

    def close(self) -> None:
        """Stop all proxies, and leave nothing behind. Idempotent."""

    def synced(self) -> bool:
        """Whether every node with a running proxy has worked on what was written so far. Raises `DistrustError`."""

    def explain(self, node: str, namespace: str, service: str) -> str:
        """Why a node does what it does with a Service, as far as the proxy says."""

    def evidence(self, node: str) -> dict[str, str]:
        """Rules, logs and reasons of a node, as texts by file name."""


MakeProxy = Callable[["ControlPlane", Sequence[str]], Proxy]
"""Makes the proxies of a cluster from its control plane and its pod CIDRs."""
