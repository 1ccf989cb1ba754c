"""Runs the reference API server and EndpointSlice controller in this process, and can restart each of them."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from prometheus_client import generate_latest

from harness.api.client import new_record, path_of
from harness.api.requests import ApiRequest
from harness.control_planes.control_plane import KubeletCertificates, OpenSocket
from harness.errors import EndedError, InconclusiveError, UsageError
from harness.model.release import CONTROLLER, Release
from reference.apiserver import ApiServer
from reference.apiserver.kinds import Strategy
from reference.apiserver.server import HttpServer
from reference.client import Client, Event, Object, Subscription
from reference.client.client import selections
from reference.client.reconnecting_client import ReconnectingClient
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.node_level import NodeLevel
from reference.features import NEWEST, Features, parse_version


def features_of(release: Release) -> Features:
    """Return the reference implementation's features in a release. Raises `UsageError`."""
    try:
        version = parse_version(release.version) if release.version else NEWEST
        return Features(version, dict(release.gates), "kep" if release.follows == "kep" else "released")
    except ValueError as error:
        raise UsageError(str(error)) from None


def node_level_of(release: Release) -> NodeLevel | None:
    """Return the rule by which a release's controller selects Services for node hints, or None for the default."""
    try:
        return NodeLevel.parse(release.node_level) if release.node_level else None
    except ValueError as error:
        raise UsageError(str(error)) from None


class _InProcessClient:
    """Access to the API server for a component in this process. Reads are recorded, as in the HTTPS server."""

    def __init__(self, server: Client, component: str, record: Callable[[ApiRequest], None]) -> None:
        self._server, self._component, self._record = server, component, record
        self.create, self.update, self.delete = server.create, server.update, server.delete
        self.update_status = server.update_status

    def get(self, resource: str, namespace: str, name: str) -> Object:
        self._read(path_of(resource, namespace, name))
        return self._server.get(resource, namespace, name)

    def subscribe(self, resources: Collection[str], sink: Callable[[Event], None]) -> Subscription:
        for resource, name in selections(resources).items():
            self._read(path_of(resource), f"fieldSelector=metadata.name={name}&watch=true" if name else "watch=true")
        return self._server.subscribe(resources, sink)

    def _read(self, path: str, query: str = "") -> None:
        self._record(ApiRequest(time.monotonic(), "GET", path, 200, query=query, by=self._component))


class EmbeddedControlPlane:
    name = "embedded"

    def __init__(
        self,
        release: Release | None = None,
        *,
        api_server: Callable[..., ApiServer] = ApiServer,
        controller: Callable[..., EndpointSliceController] = EndpointSliceController,
        kinds: Sequence[Strategy] = (),
    ) -> None:
        """`kinds` are validation rules that replace the API server's own rules for the same resources."""
        self.release = release or Release()
        self._make_api_server = api_server
        self._make_controller = controller
        self._informer = ReconnectingClient()
        self._reads = new_record()
        self._api = api_server(features_of(self.release))
        for kind in kinds:
            self._api.add_kind(kind)
        self.kubelets = KubeletCertificates()
        self._server = HttpServer(self._api, kubelet_tls=self.kubelets.of_api_server())
        self._controller: EndpointSliceController | None = None

    def client(self, component: str) -> Client:
        """Return an API client for a component in this process. It is disconnected while the API server is stopped."""
        return _InProcessClient(self._informer, component, self._reads.append)

    @property
    def version(self) -> str:
        return "v{}.{}".format(*self._api.features.version)

    @property
    def controller(self) -> str:
        return "reference"

    def start(self) -> None:
        self._server.start()
        self._informer.connect(self._api)
        self.start_controller(self.release)

    def stop(self) -> None:
        self.stop_controller()
        self._server.stop()

    def stop_api_server(self) -> None:
        if self._informer.connected:
            self._server.replace(None)
            self._informer.disconnect()

    def start_api_server(self, release: Release) -> None:
        self.stop_api_server()
        self._serve(features_of(release))

    def _serve(self, features: Features) -> None:
        self._api = self._make_api_server(features, predecessor=self._api)
        self._server.replace(self._api)
        self._informer.connect(self._api)

    @contextlib.contextmanager
    def disconnected(self) -> Iterator[None]:
        """Disconnect components during a block, and then replace the API server with an identical one."""
        if not self._informer.connected:  # the API server is stopped
            yield
            return
        self._informer.disconnect()
        self._server.end_watches()
        try:
            yield
        finally:
            self._serve(self._api.features)

    def stop_controller(self) -> None:
        if self._controller is not None:
            self._controller.stop()
            self._controller = None

    def start_controller(self, release: Release) -> None:
        self.stop_controller()
        self._controller = self._make_controller(
            self.client(CONTROLLER), features=features_of(release), conditions=True, node_level=node_level_of(release)
        )
        self._controller.start()

    def listen(self, listening: socket.socket) -> None:
        self._server.listen(listening)

    def reach_pods(self, open_socket: OpenSocket) -> None:
        self._server.reach_pods(open_socket)

    def kubeconfig(self) -> dict[str, Any]:
        return self._server.kubeconfig()

    def synced(self) -> bool:
        if self._controller is None:
            return True
        if not self._controller.running:
            raise EndedError("the endpointslice-controller exited unexpectedly")
        return not self._informer.connected or self._controller.synced()

    def metrics(self) -> str:
        if self._controller is None:
            raise InconclusiveError("the endpointslice-controller is stopped and has no metrics")
        return generate_latest(self._controller.registry).decode()

    def asked(self) -> list[ApiRequest]:
        """Return the latest requests of HTTPS clients, and the latest reads by components in this process."""
        return [
            *self._reads.copy(),
            *(
                ApiRequest(r.at, r.method, r.path, r.code or 200, query=r.query, by=r.user_agent or "unknown")
                for r in self._server.requests()
                if not r.user_agent.startswith("trafficdist")
            ),
        ]

    def threads(self) -> tuple[threading.Thread, ...]:
        """Return the threads of the server, and those of the controller unless a mutant replaces it."""
        own = self._controller if self._make_controller is EndpointSliceController else None
        return (self._server.thread, *(() if own is None else own.threads))

    def evidence(self) -> dict[str, str]:
        """Return no files, because the API objects already show what the server and the controller did."""
        return {}
