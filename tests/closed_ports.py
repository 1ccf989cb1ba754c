"""A closed port that no other process can bind."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """Yield a TCP port of 127.0.0.1 that refuses connections.

    A socket stays bound to the port. Otherwise the kernel could give the port to the next process that requests a free
    one.
    """
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])
