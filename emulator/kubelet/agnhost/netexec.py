"""The answers of `agnhost netexec`: its HTTP endpoints, and the commands of its UDP server.

Pure: from a request to an answer, or to the dials that must be made first.
"""

from __future__ import annotations

import ipaddress
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from emulator.kubelet.agnhost.messages import HttpResponse, Request, error_answer
from emulator.kubelet.agnhost.wording import TIMED_OUT, joined

_INTEGER = re.compile(r"[+-]?\d+")
READABLE = {
    "cat /proc/net/netstat": "/proc/thread-self/net/netstat",
    "cat /proc/sys/net/ipv4/ip_local_port_range": "/proc/sys/net/ipv4/ip_local_port_range",
}
"""The commands of /shell that are known here, and the file that each reads for a network namespace."""

_CONNECT = re.compile(r"/agnhost connect (?P<target>\S+):(?P<port>\d{1,5}) --timeout=(?P<seconds>[1-9])s")
"""The other command: to connect over TCP, and say nothing."""

_NOT_HERE = ("/upload", "/exit", "/shutdown")
_SERVICES = {"http": 80, "https": 443, "domain": 53}  # the likely ones of /etc/services


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of a server: host name, ports (-1: no UDP server), whether it terminates, and its environment."""

    hostname: str
    http_port: int
    udp_port: int
    ending: bool = False
    read: Callable[[str], str] = str  # one of the files of `READABLE`
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """True if it has a UDP server: agnhost's HTTP server alone is never healthy."""
        return self.udp_port != -1


@dataclass(frozen=True, slots=True)
class Dial:
    """A number of tries to reach a target, one after the other, by protocol "http" or "udp".

    "tcp" is the command `agnhost connect`: one connection, within a number of seconds.
    """

    protocol: str
    address: str
    port: int
    request: str
    tries: int
    seconds: float = 5.0

    @property
    def target(self) -> str:
        """Address and port in one."""
        return joined(self.address, self.port)


def respond(request: Request, me: ServerState, client: str) -> HttpResponse | Dial:
    """Return the answer to a request of `client` (address and port in one), or the dial that it asks for."""
    path = request.path
    if "//" in path:
        return _clean(path, request)
    if path == "/dial":
        return _dial(request.query)
    if path in _NOT_HERE:
        return error_answer(501, f"{path} is not available in an embedded cluster")
    route = _ROUTES.get(path)
    return route(request, me, client) if route else HttpResponse(200, f"NOW: {_now()}".encode())


def _clean(path: str, request: Request) -> HttpResponse:
    """Return the redirect of Go's ServeMux to the path without empty parts."""
    clean, (_, mark, query) = re.sub("/+", "/", path), request.target.partition("?")
    place = f"{clean}{mark}{query}"
    body = f'<a href="{place}">Temporary Redirect</a>.\n\n'.encode()
    return HttpResponse(307, body, (("Location", place),))


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now)) + f"{now % 1:.9f}"[1:] + " +0000 UTC"


def _hostname(_request: Request, me: ServerState, _client: str) -> HttpResponse:
    return HttpResponse(200, me.hostname.encode())


def _client_ip(_request: Request, _me: ServerState, client: str) -> HttpResponse:
    return HttpResponse(200, client.encode())


def _server_port(_request: Request, me: ServerState, _client: str) -> HttpResponse:
    return HttpResponse(200, b"%d" % me.http_port)


def _healthz(_request: Request, me: ServerState, _client: str) -> HttpResponse:
    return HttpResponse(200 if me.healthy else 412)


def _readyz(_request: Request, me: ServerState, _client: str) -> HttpResponse:
    if me.ending:
        return HttpResponse(503, b"shutting down")
    return HttpResponse(200, b"ok") if me.healthy else HttpResponse(412)


def _echo(request: Request, _me: ServerState, _client: str) -> HttpResponse:
    query = request.query
    code, text = query.get("code", ""), query.get("msg", "").encode()
    if not code:
        return HttpResponse(200, text)
    if not _INTEGER.fullmatch(code):
        return HttpResponse(200, f"argument 'code' must be an integer or empty, got \"{code}\"\n".encode())
    return HttpResponse(int(code), text) if 100 <= int(code) <= 999 else HttpResponse(500)


def _header(request: Request, _me: ServerState, _client: str) -> HttpResponse:
    key = request.query.get("key", "").lower()
    if key:
        return HttpResponse(200, next((value for name, value in request.headers if name == key), "").encode())
    shown: dict[str, list[str]] = {}
    for name, value in request.headers:
        if name != "host":
            shown.setdefault(name.title(), []).append(value)
    return HttpResponse(200, to_json(shown))


def _envvar(request: Request, me: ServerState, _client: str) -> HttpResponse:
    name = request.query.get("var", "")
    if not name:
        return error_answer(400, "'var' query parameter is required")
    if name not in me.environment:
        return error_answer(500, f'env var "{name}" is not set')
    return HttpResponse(200, me.environment[name].encode())


def _shell(request: Request, me: ServerState, _client: str) -> HttpResponse | Dial:
    command = request.query.get("shellCommand", "") or request.query.get("cmd", "")
    if found := _CONNECT.fullmatch(command):
        address = found["target"].strip("[]")
        return Dial("tcp", address, int(found["port"]), "", 1, float(found["seconds"]))
    if command not in READABLE:
        known = ", ".join(map(repr, READABLE))
        return error_answer(501, f"/shell knows {known} and agnhost connect in an embedded cluster, and nothing else")
    return HttpResponse(200, to_json({"output": me.read(READABLE[command])}))


_ROUTES: dict[str, Callable[[Request, ServerState, str], HttpResponse | Dial]] = {
    "/hostname": _hostname,
    "/hostName": _hostname,
    "/clientip": _client_ip,
    "/serverport": _server_port,
    "/healthz": _healthz,
    "/readyz": _readyz,
    "/echo": _echo,
    "/header": _header,
    "/envvar": _envvar,
    "/shell": _shell,
}


def _dial(query: dict[str, str]) -> HttpResponse | Dial:
    tries, request, protocol = query.get("tries", ""), query.get("request", ""), query.get("protocol", "")
    if tries and not _INTEGER.fullmatch(tries):
        return error_answer(400, f'tries parameter is invalid. strconv.Atoi: parsing "{tries}": invalid syntax')
    if not request:
        return error_answer(400, "request parameter not specified. <nil>")
    if protocol.lower() not in ("", "http", "udp"):
        return error_answer(400, f"unsupported protocol. {protocol}")
    chosen = protocol.lower() or "http"
    try:
        address = _address(query.get("host", ""), query.get("port", ""))
        port = _port(query.get("port", ""), "udp" if chosen == "udp" else "tcp")
    except ValueError as error:
        return error_answer(400, f"host and/or port param are invalid. {error}")
    return Dial(chosen, address, port, request, int(tries or 1))


def _port(text: str, network: str) -> int:
    if not text:
        return 0
    if not _INTEGER.fullmatch(text):
        if text not in _SERVICES:
            raise ValueError(f"lookup {network}/{text}: unknown port")
        return _SERVICES[text]
    if not 0 <= int(text) <= 65535:
        raise ValueError(f"address {text}: invalid port")
    return int(text)


def _address(host: str, port: str) -> str:
    """Return a numeric address as Go writes it. Names are not resolved, except "localhost"."""
    if host in ("", "localhost"):
        return "127.0.0.1"
    if host.startswith("["):
        raise ValueError(f"address {joined(host, 0)[:-1]}{port}: missing port in address")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        raise ValueError(f"lookup {host}: no such host") from None


def dialed(responses: list[str], errors: list[str], *, last: str) -> HttpResponse:
    """Return the answer of `/dial`: always 200, and without any responses if the last try had none or an empty one."""
    output = {**({"errors": errors} if errors else {}), **({"responses": responses} if last else {})}
    return HttpResponse(200, to_json(output))


def connected(errors: list[str]) -> HttpResponse:
    """Return the answer of `/shell` after `agnhost connect`, which prints nothing where it could connect."""
    if not errors:
        return HttpResponse(200, to_json({}))
    said = f"OTHER: {errors[0]}"
    if "connection refused" in errors[0]:
        said = "REFUSED"
    elif TIMED_OUT in errors[0]:
        said = "TIMEOUT"
    return HttpResponse(200, to_json({"error": "exit status 1", "output": f"{said}\n"}))


def to_json(value: object) -> bytes:
    """Return JSON as Go's encoding/json writes it."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").encode()


def respond_udp(data: bytes, me: ServerState, client: str) -> bytes | None:
    """Return the answer to a datagram of `client`; None for an unknown command, which gets no answer."""
    raw = data.decode("utf-8", "replace").strip()
    text = raw.lower()
    if text == "hostname":
        return me.hostname.encode()
    if text == "clientip":
        return client.encode()
    if text == "serverport":
        return b"%d" % me.udp_port
    if text.startswith("envvar "):
        return me.environment.get(raw.partition(" ")[2].strip(), "").encode()
    if text.startswith("echo "):
        return text.partition(" ")[2].encode()
    return None
