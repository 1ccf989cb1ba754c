"""Runs the reference DNS server in this process."""

import threading
from collections.abc import Callable

from harness.control_planes.control_plane import ControlPlane
from harness.control_planes.embedded import EmbeddedControlPlane
from harness.dns.dns import PORT
from harness.errors import EndedError, UnavailableError
from harness.model.release import DNS_SERVER, LOCATOR_CONTROLLER
from harness.netns.fabric import NetworkPeer
from harness.probes.server import bound
from reference.dns import DnsServer
from reference.pod_locator import PodLocatorController


class ReferenceDns:
    name = "reference"

    def __init__(
        self,
        plane: ControlPlane,
        *,
        controller: Callable[..., PodLocatorController] = PodLocatorController,
        server: Callable[..., DnsServer] = DnsServer,
    ) -> None:
        if not isinstance(plane, EmbeddedControlPlane):
            raise UnavailableError("only the embedded control plane serves PodLocators")
        self._make_controller = controller
        self._plane = plane
        self._controller: PodLocatorController | None = None
        self._server = server(plane.client(DNS_SERVER))

    def start(self, pod: NetworkPeer) -> None:
        listen(self._server, pod)
        self.start_locators()
        self._server.start()

    def stop(self) -> None:
        self._server.stop()
        self.stop_locators()

    def start_locators(self) -> None:
        self.stop_locators()
        self._controller = self._make_controller(self._plane.client(LOCATOR_CONTROLLER))
        self._controller.start()

    def stop_locators(self) -> None:
        if self._controller is not None:
            self._controller.stop()
            self._controller = None

    def synced(self) -> bool:
        return self._server.synced()

    def locators_synced(self) -> bool:
        if self._controller is None:
            return True
        if not self._controller.running:
            raise EndedError(f"the {LOCATOR_CONTROLLER} exited unexpectedly")
        return self._controller.synced()

    def threads(self) -> tuple[threading.Thread, ...]:
        """Return the threads of the server and of the controller, but not those of mutants (subclasses)."""
        own = self._controller if type(self._controller) is PodLocatorController else None
        controller = () if own is None else own.threads
        return (*controller, *(self._server.threads if type(self._server) is DnsServer else ()))

    def evidence(self) -> dict[str, str]:
        return {}


def listen(server: DnsServer, pod: NetworkPeer) -> None:
    for family, address in pod.addresses.items():
        for protocol in ("UDP", "TCP"):
            server.listen(bound(pod.namespace, protocol, family, PORT, address=address))
