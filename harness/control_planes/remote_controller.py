"""Run the reference EndpointSlice controller, or a faulty variant, as a client of any API server.

This adapter imports the reference. It replaces the EndpointSlice controller of kube-controller-manager, to show how
upstream's e2e tests report a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.control_planes.embedded import features_of, node_level_of
from harness.model.release import Release
from reference.client.remote import RemoteClient
from reference.endpointslice import EndpointSliceController


class RemoteController:
    """Runs at most one controller, which watches the API server over HTTPS."""

    def __init__(self, make: Callable[..., EndpointSliceController]) -> None:
        self._make = make
        self._running: tuple[EndpointSliceController, RemoteClient] | None = None

    def start(self, release: Release, kubeconfig: Mapping[str, Any]) -> None:
        """Run the controller as this release, and replace a running controller."""
        self.close()
        client = RemoteClient(kubeconfig)
        controller = self._make(
            client, features=features_of(release), conditions=True, node_level=node_level_of(release)
        )
        controller.start()
        self._running = controller, client

    def close(self) -> None:
        """Stop the controller. EndpointSlices stay. Idempotent."""
        if self._running is not None:
            controller, client = self._running
            self._running = None
            controller.stop()
            client.close()
