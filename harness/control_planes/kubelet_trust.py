"""How an API server and the kubelets of its nodes know each other: one authority signs the certificates of both."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence

import trustme

_API_SERVER = "kube-apiserver-kubelet-client"


class KubeletTrust:
    """The authority of one cluster. Nothing of it is on a disk."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self._client = self._authority.issue_cert(_API_SERVER, common_name=_API_SERVER)

    @property
    def authority_pem(self) -> bytes:
        """The certificate of the authority."""
        return self._authority.cert_pem.bytes()

    @property
    def client_pem(self) -> bytes:
        """The API server's private key and certificate."""
        return self._client.private_key_and_cert_chain_pem.bytes()

    def of_api_server(self) -> ssl.SSLContext:
        """Return the TLS of an API server, which trusts kubelets at the addresses in their certificates."""
        context = ssl.create_default_context(cadata=self.authority_pem.decode())
        _load(context, self.client_pem)
        return context

    def of_kubelet(self, addresses: Sequence[str]) -> ssl.SSLContext:
        """Return the TLS of a kubelet at these addresses, which talks with the API server and nobody else."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.authority_pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED
        _load(context, self._authority.issue_cert(*addresses).private_key_and_cert_chain_pem.bytes())
        return context


def _load(context: ssl.SSLContext, key_and_certificates: bytes) -> None:
    """Load them from a file in memory, as no other would be gone after `kill -9`."""
    with open(os.memfd_create("tls"), "wb") as file:  # noqa: PTH123  it has no path
        file.write(key_and_certificates)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
