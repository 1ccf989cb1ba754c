"""The interface of control planes, and the TLS certificates of the API server and kubelets."""

import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import trustme

from harness.api.requests import ApiRequest
from harness.model.release import Release

OpenSocket = Callable[[int, int], socket.socket]
"""Creates a socket of a family and a type inside the cluster's network. The arguments are those of `socket.socket`."""

_API_SERVER = "kube-apiserver-kubelet-client"


class KubeletCertificates:
    """An in-memory certificate authority, through which the API server and kubelets of a cluster trust each other."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self._client = self._authority.issue_cert(_API_SERVER, common_name=_API_SERVER)

    @property
    def authority_pem(self) -> bytes:
        return self._authority.cert_pem.bytes()

    @property
    def client_pem(self) -> bytes:
        return self._client.private_key_and_cert_chain_pem.bytes()

    def of_api_server(self) -> ssl.SSLContext:
        """Return the TLS context of an API server. It verifies a kubelet's certificate and address."""
        context = ssl.create_default_context(cadata=self.authority_pem.decode())
        _load(context, self.client_pem)
        return context

    def of_kubelet(self, addresses: Sequence[str]) -> ssl.SSLContext:
        """Return the TLS context of a kubelet at these addresses. It accepts only the API server as a client."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.authority_pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED
        _load(context, self._authority.issue_cert(*addresses).private_key_and_cert_chain_pem.bytes())
        return context


def _load(context: ssl.SSLContext, key_and_certificates: bytes) -> None:
    """Load the key and certificates from a memory file, because a file on disk would remain after `kill -9`."""
    with open(os.memfd_create("tls"), "wb") as file:  # noqa: PTH123  it has no path
        file.write(key_and_certificates)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")


class ControlPlane(Protocol):
    """One API server and one EndpointSlice controller. Methods raise `UnavailableError`."""

    name: str
    kubelets: KubeletCertificates  # certificate authority through which the API server and kubelets trust each other

    @property
    def version(self) -> str:
        """The API server's version, such as "v1.37"."""

    @property
    def controller(self) -> str:
        """The EndpointSlice controller's name and version for reports, such as "kube-controller-manager v1.37.1"."""

    def start(self) -> None:
        """Start the API server and the controller, and wait until they are ready."""

    def stop(self) -> None:
        """Stop the API server and the controller, wait until they have ended, and remove their files. Idempotent."""

    def start_api_server(self, release: Release) -> None:
        """Start this release of the API server in place of a running one, if any. The stored objects remain."""

    def stop_api_server(self) -> None:
        """Stop the API server. The stored objects remain."""

    def start_controller(self, release: Release) -> None:
        """Run the EndpointSlice controller of this release. It replaces a running controller."""

    def stop_controller(self) -> None:
        """Stop the EndpointSlice controller. EndpointSlices remain."""

    def listen(self, listening: socket.socket) -> None:
        """Serve the API on another listening socket, which may be in any netns. `stop` closes the socket."""

    def reach_pods(self, open_socket: OpenSocket) -> None:
        """Let the API server reach pods and kubelets through sockets from `open_socket`, which any thread may call."""

    def kubeconfig(self) -> dict[str, Any]:
        """Return a kubeconfig for clients."""

    def synced(self) -> bool:
        """Return whether the controller has processed all writes, or is stopped. Raises `EndedError`."""

    def metrics(self) -> str:
        """Return the controller's metrics in Prometheus text format. Raises `InconclusiveError` if it is stopped."""

    def asked(self) -> list[ApiRequest] | None:
        """Return the latest requests of all clients except the harness, or None if the API server records none."""

    def evidence(self) -> dict[str, str]:
        """Return the logs as a mapping from file name to content."""


MakeControlPlane = Callable[[Release], ControlPlane]  # creates the control plane of a cluster for a release
