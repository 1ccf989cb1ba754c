"""The words in which Go's net and net/http packages tell of errors: clients of `/dial` tell outcomes apart by them.

Pure.
"""

from __future__ import annotations

import os

HTTP_TIMED_OUT = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"


def joined(host: str, port: int) -> str:
    """Host and port in one, as in "10.0.0.1:80" and "[fd00::1]:80"."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reason(error: OSError) -> str:
    """Go's text for an errno: that of the C library, in lower case."""
    text = os.strerror(error.errno) if error.errno else str(error)
    return text[:1].lower() + text[1:]


def connect_failed(network: str, target: str, error: OSError) -> str:
    """A connection could not be made; `network` is "tcp" or "udp", `target` host and port in one."""
    return f"dial {network} {target}: connect: {reason(error)}"


def failed(call: str, network: str, source: str, target: str, error: OSError) -> str:
    """A connected socket could not "read" or "write"."""
    return f"{call} {network} {source}->{target}: {call}: {reason(error)}"


def http_failed(target: str, request: str, what: str) -> str:
    """A GET that had no answer."""
    return f'Get "http://{target}/{request}": {what}'
