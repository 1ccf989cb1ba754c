"""The protocol of control planes: they serve the Kubernetes API and write EndpointSlices."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Protocol

from harness.api.requests import ApiRequest
from harness.control_planes.kubelet_trust import KubeletTrust
from harness.model.release import Release

OpenSocket = Callable[[int, int], socket.socket]
"""Makes a socket of a family and a type inside the cluster's network, like `socket.socket` outside of it."""


class ControlPlane(Protocol):
    """One API server and one EndpointSlice controller. Methods raise `UnavailableError` with the remedy."""

    name: str
    kubelets: KubeletTrust
    """The certificates by which the API server and kubelets trust each other."""

    @property
    def version(self) -> str:
        """The API server's version, like "v1.37"."""

    @property
    def controller(self) -> str:
        """The name of the EndpointSlice controller, and its own version if it has one, for reports."""

    @property
    def gates(self) -> dict[str, bool]:
        """The feature gates that were set explicitly."""

    def start(self) -> None:
        """Start the API server and the controller; wait until both are ready."""

    def stop(self) -> None:
        """Stop both, wait until they have ended, and remove their files. Idempotent."""

    def start_api_server(self, release: Release) -> None:
        """Replace the API server with this release; stored objects stay."""

    def stop_api_server(self) -> None:
        """Stop the API server; stored objects stay."""

    def start_controller(self, release: Release) -> None:
        """Run the EndpointSlice controller of this release, replacing a running one."""

    def stop_controller(self) -> None:
        """Stop the EndpointSlice controller; slices stay."""

    def listen(self, listening: socket.socket) -> None:
        """Serve on one more listening socket, made by the caller in any netns; `stop` closes it."""

    def reach_pods(self, open_socket: OpenSocket) -> None:
        """Let the API server connect to pods and kubelets through sockets from `open_socket`.

        It is called in a thread of the control plane, at any time until `stop`.
        """

    def kubeconfig(self) -> dict[str, Any]:
        """Return a client's kubeconfig: address, certificate and credentials."""

    def synced(self) -> bool:
        """Return whether the controller has processed all writes so far; True if it is stopped.

        Raises `EndedError` if it has exited on its own.
        """

    def metrics(self) -> str:
        """Return the controller's metrics in Prometheus text. Raises `InconclusiveError` if it is stopped."""

    def asked(self) -> list[ApiRequest] | None:
        """Return the latest requests of other clients; None if the API server keeps no record."""

    def evidence(self) -> dict[str, str]:
        """Return logs, as texts by file name."""


MakeControlPlane = Callable[[Release], ControlPlane]
"""Makes the control plane of a cluster, of a release."""
