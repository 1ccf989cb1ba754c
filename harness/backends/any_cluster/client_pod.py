"""Who asks on a cluster that is reached by its API alone."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from harness.errors import UnavailableError


@dataclass(frozen=True, slots=True)
class ClientPod:
    """A pod that asks: where its own server is reached. Sockets cannot be made in it."""

    namespace: str
    name: str
    port: int
    on_host: bool = False  # on the network of its node, where others repeat SYNs too

    def socket(self, family: int, kind: int, proto: int = 0, /) -> socket.socket:  # noqa: ARG002
        """Raises `UnavailableError`."""
        raise UnavailableError(f"pod {self.namespace}/{self.name} is on another machine: no socket can be made in it")
