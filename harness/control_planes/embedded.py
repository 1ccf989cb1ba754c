"""The reference API server and EndpointSlice controller, in this process.

One of the two adapters that know the reference. Components in the process watch the store; everybody else uses HTTPS.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

from reference.apiserver import ApiServer
from reference.apiserver.kinds import Strategy
from reference.apiserver.server import HttpServer
from reference.client import Client
from reference.endpointslice import EndpointSliceController
from reference.features import Features


class EmbeddedControlPlane:
    """Serves the Kubernetes API on a loopback port, with a token of its own, and writes EndpointSlices."""

    name = "embedded"

    def __init__(
        self,
        features: Features | None = None,
        *,
        controller: Callable[..., EndpointSliceController] = EndpointSliceController,
        kinds: Sequence[Strategy] = (),
    ) -> None:
        """`kinds` replace the API server's own rules for the same resources."""
        self.features = features or Features()
        self._api = ApiServer(self.features)
        for kind in kinds:
            self._api.add_kind(kind)
        self._server = HttpServer(self._api)
        self._controller = controller(self.client, features=self.features)

    @property
    def client(self) -> Client:
        """The API server for components in this process."""
        return self._api

    @property
    def version(self) -> str:
        """The Kubernetes version that it behaves as, for example "v1.37"."""
        return "v{}.{}".format(*self.features.version)

    @property
    def gates(self) -> dict[str, bool]:
        """The feature gates that were set on top of the version's defaults."""
        return dict(self.features.gates)

    def start(self) -> None:
        """Begin to serve and to control."""
        self._server.start()
        self._controller.start()

    def stop(self) -> None:
        """Stop both, and wait until they have."""
        self._controller.stop()
        self._server.stop()

    def listen(self, listening: socket.socket) -> None:
        """Serve on one more listening socket, made by the caller in whatever netns."""
        self._server.listen(listening)

    def kubeconfig(self) -> dict[str, Any]:
        """How any client reaches the API server: address, certificate and token."""
        return self._server.kubeconfig()

    def synced(self) -> bool:
        """Whether the controller has worked on everything that was written so far."""
        return self._controller.synced()

    def evidence(self) -> dict[str, str]:
        """The last requests that clients made, oldest first."""
        return {"api-requests.txt": "\n".join(str(each) for each in self._server.requests())}
