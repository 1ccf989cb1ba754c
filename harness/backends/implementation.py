"""The judged parts of an embedded cluster: the makers of the control plane, the proxies and the DNS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # adapters are imported only when they are asked for
    from harness.control_planes.control_plane import MakeControlPlane
    from harness.dns.dns import MakeDns
    from harness.proxies.proxy import MakeProxy


class Parts(Protocol):
    """The components of the reference, each of which a mutant may replace."""

    @property
    def api_server(self) -> Callable[..., Any]:
        """Makes the API server."""

    @property
    def kinds(self) -> Callable[[], Sequence[Any]]:
        """Makes rules that replace the API server's own for the same resources."""

    @property
    def controller(self) -> Callable[..., Any]:
        """Makes the EndpointSlice controller."""

    @property
    def proxy(self) -> Callable[..., Any]:
        """Makes the proxy of a node."""

    @property
    def pod_locators(self) -> Callable[..., Any]:
        """Makes the PodLocator controller."""

    @property
    def dns(self) -> Callable[..., Any]:
        """Makes the DNS server."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """Makes the judged parts of a cluster."""

    control_plane: MakeControlPlane
    proxy: MakeProxy
    dns: MakeDns


def reference(parts: Parts | None = None) -> Implementation:
    """Return the reference, in this process, with the components of `parts` if they are given."""
    from harness.control_planes.embedded import EmbeddedControlPlane
    from harness.dns.reference import ReferenceDns
    from harness.proxies.reference import ReferenceProxy

    if parts is None:
        return Implementation(
            control_plane=EmbeddedControlPlane,
            proxy=lambda plane, pod_cidrs: ReferenceProxy(plane, pod_cidrs=pod_cidrs),
            dns=ReferenceDns,
        )
    return Implementation(
        control_plane=lambda release: EmbeddedControlPlane(
            release, api_server=parts.api_server, controller=parts.controller, kinds=parts.kinds()
        ),
        proxy=lambda plane, pod_cidrs: ReferenceProxy(plane, pod_cidrs=pod_cidrs, proxy=parts.proxy),
        dns=lambda plane: ReferenceDns(plane, controller=parts.pod_locators, server=parts.dns),
    )
