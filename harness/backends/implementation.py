"""The components under test of an embedded cluster: factories for control plane, proxies and DNS server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # adapters are imported only when used
    from harness.control_planes.control_plane import ControlPlane, MakeControlPlane
    from harness.dns.dns import ClusterDns, MakeDns
    from harness.model.release import Release
    from harness.proxies.proxy import MakeProxy, Proxy


class ReferenceComponents(Protocol):
    """The components of the reference implementation, each of which a mutant may replace."""

    @property
    def api_server(self) -> Callable[..., Any]:
        """Creates the API server."""

    @property
    def kinds(self) -> Callable[[], Sequence[Any]]:
        """Creates rules that replace the API server's own validation rules for the same resources."""

    @property
    def controller(self) -> Callable[..., Any]:
        """Creates the EndpointSlice controller."""

    @property
    def proxy(self) -> Callable[..., Any]:
        """Creates the proxy of a node."""

    @property
    def pod_locators(self) -> Callable[..., Any]:
        """Creates the PodLocator controller."""

    @property
    def dns(self) -> Callable[..., Any]:
        """Creates the DNS server."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """Creates a cluster's components under test. Each new Service gets the fields of `services` that it lacks."""

    control_plane: "MakeControlPlane"
    proxy: "MakeProxy"
    dns: "MakeDns"
    services: Mapping[str, Any] = field(default_factory=dict)


def reference(parts: ReferenceComponents | None = None) -> Implementation:
    """Return the reference implementation, whose modules are imported at boot. `parts` replaces its components."""

    def control_plane(release: "Release") -> "ControlPlane":
        from harness.control_planes.embedded import EmbeddedControlPlane

        if parts is None:
            return EmbeddedControlPlane(release)
        return EmbeddedControlPlane(
            release, api_server=parts.api_server, controller=parts.controller, kinds=parts.kinds()
        )

    def proxy(plane: "ControlPlane", pod_cidrs: Sequence[str]) -> "Proxy":
        from harness.proxies.reference import ReferenceProxy

        if parts is None:
            return ReferenceProxy(plane, pod_cidrs=pod_cidrs)
        return ReferenceProxy(plane, pod_cidrs=pod_cidrs, proxy=parts.proxy)

    def dns(plane: "ControlPlane") -> "ClusterDns":
        from harness.dns.reference import ReferenceDns

        if parts is None:
            return ReferenceDns(plane)
        return ReferenceDns(plane, controller=parts.pod_locators, server=parts.dns)

    return Implementation(control_plane, proxy, dns)
