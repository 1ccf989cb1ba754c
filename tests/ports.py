"""A port where nobody listens, and nobody else will."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """Yield a TCP port of 127.0.0.1 that refuses connections.

    It stays bound meanwhile: the kernel would give a port that was let go to the next who asks for any.
    """
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])
