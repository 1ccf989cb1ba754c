"""The certificate authority through which an API server and its kubelets trust each other."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence

import trustme

_API_SERVER = "kube-apiserver-kubelet-client"


class KubeletTrust:
    """The certificate authority of one cluster. It exists only in memory."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self._client = self._authority.issue_cert(_API_SERVER, common_name=_API_SERVER)

    @property
    def authority_pem(self) -> bytes:
        return self._authority.cert_pem.bytes()

    @property
    def client_pem(self) -> bytes:
        """The API server's private key and certificate."""
        return self._client.private_key_and_cert_chain_pem.bytes()

    def of_api_server(self) -> ssl.SSLContext:
        """Return the TLS context of an API server, which trusts kubelets at the addresses in their certificates."""
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
    """Load the key and certificates from a memory file, because a file on disk would survive `kill -9`."""
    with open(os.memfd_create("tls"), "wb") as file:  # noqa: PTH123  it has no path
        file.write(key_and_certificates)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
