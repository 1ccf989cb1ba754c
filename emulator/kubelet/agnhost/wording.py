"""Error texts of Go's net and net/http packages: clients of `/dial` tell outcomes apart by them.

Pure.
"""

from __future__ import annotations

import os

HTTP_TIMED_OUT = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
TIMED_OUT = "i/o timeout"


def joined(host: str, port: int) -> str:
    """Return host and port in one: "10.0.0.1:80", "[fd00::1]:80"."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reason(error: OSError) -> str:
    """Return Go's text for an errno: that of the C library, in lower case."""
    text = os.strerror(error.errno) if error.errno else str(error)
    return text[:1].lower() + text[1:]


def connect_failed(network: str, target: str, error: OSError) -> str:
    """Return the error of a connection that failed; `network` is "tcp" or "udp", `target` host and port in one."""
    return f"dial {network} {target}: connect: {reason(error)}"


def failed(call: str, network: str, source: str, target: str, error: OSError) -> str:
    """Return the error of a failed `call`, "read" or "write", on a connected socket."""
    return f"{call} {network} {source}->{target}: {call}: {reason(error)}"


def http_failed(target: str, request: str, what: str) -> str:
    """Return the error of a GET without an answer."""
    return f'Get "http://{target}/{request}": {what}'
