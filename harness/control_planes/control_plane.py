"""What the harness asks of a control plane: to serve the Kubernetes API, and to write EndpointSlices.

The narrow seam behind which the reference and real components look alike.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Protocol

from harness.api.requests import Asked
from harness.model.release import Release

OpenSocket = Callable[[int, int], socket.socket]
"""Makes a socket of a family and a type inside the cluster's network, as `socket.socket` does outside of it."""


class ControlPlane(Protocol):
    """One API server and one EndpointSlice controller. Methods raise `UnavailableError` with the remedy."""

    name: str

    @property
    def version(self) -> str:
        """The API server's version, like "v1.37"."""

    @property
    def controller(self) -> str:
        """What writes EndpointSlices: name, and version where it has one of its own, for reports."""

    @property
    def gates(self) -> dict[str, bool]:
        """The feature gates that were set on top of the version's defaults."""

    def start(self) -> None:
        """Begin to serve and to control; return when both do."""

    def stop(self) -> None:
        """Stop both, wait until they have, and leave nothing behind. Idempotent."""

    def start_api_server(self, release: Release) -> None:
        """Serve what is stored, as this release does, in place of the API server that runs."""

    def stop_api_server(self) -> None:
        """Let nobody reach the API server any more; what it has stored stays."""

    def start_controller(self, release: Release) -> None:
        """Run the EndpointSlice controller of this release, in place of one that runs."""

    def stop_controller(self) -> None:
        """Stop the EndpointSlice controller; slices stay."""

    def listen(self, listening: socket.socket) -> None:
        """Serve on one more listening socket, made by the caller in whatever netns; it is closed by `stop`."""

    def reach_pods(self, open_socket: OpenSocket) -> None:
        """Let the API server pass requests on to pods (`pods/NAME:PORT/proxy`) through sockets that this makes.

        It is called in a thread of the control plane, at any time until `stop`.
        """

    def kubeconfig(self) -> dict[str, Any]:
        """How any client reaches the API server: address, certificate and credentials."""

    def synced(self) -> bool:
        """Whether the controller has worked on everything that was written so far; so it has if it is away."""

    def metrics(self) -> str:
        """What the controller exposes as Prometheus text. Raises `InconclusiveError` when it is stopped."""

    def asked(self) -> list[Asked]:
        """The latest requests by others than the harness, oldest first; none where the API server keeps no record."""

    def evidence(self) -> dict[str, str]:
        """Logs, as texts by file name."""


MakeControlPlane = Callable[[Release], ControlPlane]
"""Makes the control plane of a cluster, of a release."""
