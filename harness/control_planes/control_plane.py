"""The protocol of control planes, which serve the Kubernetes API and write EndpointSlices."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Protocol

from harness.api.requests import ApiRequest
from harness.control_planes.kubelet_trust import KubeletTrust
from harness.model.release import Release

OpenSocket = Callable[[int, int], socket.socket]
"""Creates a socket of a family and a type inside the cluster's network. The arguments are those of `socket.socket`."""


class ControlPlane(Protocol):
    """One API server and one EndpointSlice controller. Methods raise `UnavailableError` with the remedy."""

    name: str
    kubelets: KubeletTrust
    """The certificate authority through which the API server and kubelets trust each other."""

    @property
    def version(self) -> str:
        """The API server's version, like "v1.37"."""

    @property
    def controller(self) -> str:
        """The name of the EndpointSlice controller for reports, with its version if that differs."""

    @property
    def gates(self) -> dict[str, bool]:
        """The feature gates that were set explicitly."""

    def start(self) -> None:
        """Start the API server and the controller, and wait until they are ready."""

    def stop(self) -> None:
        """Stop the API server and the controller, wait until they have ended, and remove their files. Idempotent."""

    def start_api_server(self, release: Release) -> None:
        """Replace the API server with this release. Stored objects stay."""

    def stop_api_server(self) -> None:
        """Stop the API server. Stored objects stay."""

    def start_controller(self, release: Release) -> None:
        """Run the EndpointSlice controller of this release, and replace a running controller."""

    def stop_controller(self) -> None:
        """Stop the EndpointSlice controller. EndpointSlices stay."""

    def listen(self, listening: socket.socket) -> None:
        """Serve on another listening socket, which the caller created in any netns. `stop` closes the socket."""

    def reach_pods(self, open_socket: OpenSocket) -> None:
        """Let the API server connect to pods and kubelets through sockets from `open_socket`.

        A thread of the control plane calls `open_socket` at any time until `stop`.
        """

    def kubeconfig(self) -> dict[str, Any]:
        """Return a client's kubeconfig with address, certificate and credentials."""

    def synced(self) -> bool:
        """Return whether the controller has processed all writes so far. Returns True if the controller is stopped.

        Raises `EndedError` if the controller has exited unexpectedly.
        """

    def metrics(self) -> str:
        """Return the controller's metrics in Prometheus format. Raises `InconclusiveError` if it is stopped."""

    def asked(self) -> list[ApiRequest] | None:
        """Return the latest requests of other clients, or None if the API server does not record requests."""

    def evidence(self) -> dict[str, str]:
        """Return logs, as texts by file name."""


MakeControlPlane = Callable[[Release], ControlPlane]
"""Creates the control plane of a cluster for a release."""
