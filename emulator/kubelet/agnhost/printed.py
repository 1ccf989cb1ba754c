"""What agnhost prints while it works, for the logs of its containers.

Pure, but for the clock. agnhost logs through klog to its standard error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache

from emulator.kubelet.agnhost.arguments import Command, Netexec, Pause, ServeHostname
from emulator.kubelet.agnhost.messages import Request

_PLACE = b"      1 log.go:244"  # process id 1, and where Go's package log hands a line to klog
_ARGUMENTS = {
    "/echo": ("msg", "code"),
    "/header": ("key",),
    "/envvar": ("var",),
    "/dial": ("host", "protocol", "port", "request", "tries"),
}
_PLAIN = ("/clientip", "/serverport", "/healthz", "/readyz", "/hostname", "/hostName")


def logged(text: str) -> bytes:
    """Return a line as klog writes it now."""
    seconds, rest = divmod(time.time_ns(), 10**9)
    return b"I%b.%06d %b] %b\n" % (_second(seconds), rest // 1000, _PLACE, text.encode())


@lru_cache(maxsize=2)
def _second(seconds: int) -> bytes:
    return time.strftime("%m%d %H:%M:%S", time.gmtime(seconds)).encode()


@lru_cache(maxsize=512)
def of_request(request: Request) -> str:
    """Return what netexec logs of a request."""
    path, query = request.path, request.query
    if path == "/shell":
        return f"GET /shell?cmd={query.get('shellCommand') or query.get('cmd', '')}"
    if path == "/header" and not query.get("key"):
        return "GET /header"
    if path in _ARGUMENTS:
        return f"GET {path}?" + "&".join(f"{name}={query.get(name, '')}" for name in _ARGUMENTS[path])
    return f"GET {path}" if path in _PLAIN else "GET /"


def of_datagram(data: bytes, client: str, port: int) -> str:
    """Return what netexec logs of a datagram; "" for an empty one."""
    raw = data.decode("utf-8", "replace").strip()
    text = raw.lower()
    if text == "hostname":
        return "Sending udp hostName response"
    if text.startswith("envvar "):
        return f"Sending UDP envvar response for {raw.partition(' ')[2].strip()}"
    if text.startswith("echo "):
        return f"Echoing {text.partition(' ')[2]} to UDP client {client}"
    if text == "clientip":
        return f"Sending clientip back to UDP client {client}"
    if text == "serverport":
        return f"Sending server port to UDP client {port}"
    return f"Unknown UDP command received from {client}: {text}" if text else ""


def at_start(command: Command) -> Iterator[tuple[str, bytes]]:
    """Yield what it prints when it has started, with the stream."""
    match command:
        case Netexec():
            yield "stderr", logged(f"Started HTTP server on port {command.http_port}")
            if command.udp_port != -1:
                yield "stderr", logged(f"Started UDP server on port  {command.udp_port}")
        case ServeHostname():
            yield "stderr", logged(f"Serving on port {command.port}.")
        case Pause(exit_code=2):
            yield "stdout", b"Paused\nSignals registered\n"


def at_sigterm(command: Command) -> Iterator[tuple[str, bytes]]:
    """Yield what it prints when it is told to end."""
    match command:
        case Netexec():
            if command.delay_shutdown > 0:
                yield "stderr", logged(f"Sleeping {command.delay_shutdown} seconds before terminating...")
        case ServeHostname():
            yield "stderr", logged("Shutting down after receiving signal: terminated.")
            yield "stderr", logged("Awaiting pod deletion.")
        case Pause(exit_code=2):
            yield "stdout", b'exiting because of signal "terminated"\n'
        case Pause():
            yield "stderr", b"Shutting down, got signal: Terminated\n"
