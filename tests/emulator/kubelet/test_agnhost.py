"""The embedded cluster's agnhost answers as the real one does.

Where the environment variable AGNHOST names a real agnhost (`go build k8s.io/kubernetes/test/images/agnhost`, or any
program with its `netexec`), both are asked the same questions.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from emulator.kubelet.agnhost.answers import Process
from emulator.kubelet.agnhost.arguments import CommandError, Netexec, Pause, Program, ServeHostname, parse
from emulator.kubelet.agnhost.engine import Engine
from emulator.kubelet.agnhost.messages import MalformedError, read_answer, read_request
from emulator.kubelet.container_log import ContainerLog
from emulator.kubelet.sandbox import NoProgramError
from harness.eventually import eventually
from harness.netns import http
from harness.netns.fabric import Host, Network
from harness.netns.http import HttpAnswer

Ask = Callable[..., HttpAnswer]

CLOSED = 81
BAD_SERVERS = ("serve-hostname --tcp", "serve-hostname --http=maybe", "serve-hostname now", "serve-hostname --port")
OTHER = "OTHER: dial tcp 203.0.113.1:80: connect: no route to host\n"


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as running:
        yield running


@pytest.fixture
def target(network: Network, engine: Engine) -> Host:
    """A pod on b1 that serves HTTP and UDP on port 8080."""
    pod = network.add_pod("b1")
    engine.run(Netexec(8080, 8080), pod.namespace, families=network.families, process=Process("target"))
    return pod


@pytest.fixture
def client(network: Network, engine: Engine) -> Host:
    """A pod on a1 with what netexec has without flags."""
    pod = network.add_pod("a1")
    engine.run(Netexec(), pod.namespace, families=network.families, process=Process(socket.gethostname()))
    return pod


def get(pod: Host, path: str, port: int = 8080) -> HttpAnswer:
    """Ask a pod from inside itself."""
    return http.get(pod.namespace, "127.0.0.1", port, path)


def dial(pod: Host, address: str, port: int = 8080, *, request: str = "hostname", **more: object) -> dict[str, Any]:
    """What came of connections that a pod was asked to make."""
    rest = "".join(f"&{name}={value}" for name, value in more.items())
    answer = get(pod, f"/dial?host={address}&port={port}&request={request}{rest}")
    assert answer.code == 200, answer.text
    found: dict[str, Any] = json.loads(answer.text)
    return found


@pytest.mark.parametrize("protocol", ["http", "udp"])
@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_dial_says_who_answered_each_try(client: Host, target: Host, protocol: str, family: Any) -> None:
    found = dial(client, target.addresses[family], tries=3, protocol=protocol)
    assert found == {"responses": ["target"] * 3}


def test_clients_see_their_own_address(client: Host, target: Host) -> None:
    (seen,) = dial(client, target.addresses["IPv6"], request="clientip")["responses"]
    assert re.fullmatch(r"\[fd00:10:244:1::2\]:\d+", seen)


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ("http", r'Get "http://10\.244\.2\.2:81/hostname": dial tcp 10\.244\.2\.2:81: connect: connection refused'),
        ("udp", r"reading .* failed\. err:'read udp 10\.244\.1\.2:\d+->10\.244\.2\.2:81: read: connection refused'"),
    ],
)
def test_a_refusal_is_told_in_the_words_of_go(client: Host, target: Host, protocol: str, said: str) -> None:
    found = dial(client, target.addresses["IPv4"], CLOSED, protocol=protocol, tries=2)
    assert [bool(re.fullmatch(said, each)) for each in found["errors"]] == [True, True]
    assert "responses" not in found


def test_a_connection_without_a_word_says_nothing_unless_it_fails(client: Host, target: Host) -> None:
    def connect(address: str, port: int) -> object:
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        command = quote(f"/agnhost connect {place} --timeout=1s")
        return json.loads(get(client, f"/shell?cmd={command}").text)

    refused, late = ({"error": "exit status 1", "output": f"{said}\n"} for said in ("REFUSED", "TIMEOUT"))
    assert [connect(address, 8080) for address in target.addresses.values()] == [{}, {}]
    assert [connect(address, CLOSED) for address in target.addresses.values()] == [refused, refused]
    assert connect("203.0.113.1", 80) in (late, {"error": "exit status 1", "output": OTHER})


def test_a_thousand_refusals_do_not_nest(client: Host, target: Host) -> None:
    assert len(dial(client, target.addresses["IPv4"], CLOSED, tries=1000)["errors"]) == 1000


def test_health_depends_on_the_udp_server(network: Network, engine: Engine) -> None:
    pod = network.add_pod("a1")
    engine.run(Netexec(8080, -1), pod.namespace, families=network.families, process=Process("h"))
    assert get(pod, "/healthz").code == 412


def test_two_containers_of_a_pod_have_a_port_each(network: Network, engine: Engine) -> None:
    pod = network.add_pod("a1")
    for port in (8080, 9090):
        engine.run(Netexec(port, port), pod.namespace, families=network.families, process=Process(f"at-{port}"))
    assert (get(pod, "/hostname").text, get(pod, "/hostname", 9090).text) == ("at-8080", "at-9090")


def test_a_taken_port_is_refused_and_nothing_stays_open(network: Network, engine: Engine, client: Host) -> None:
    with pytest.raises(OSError, match="in use"):
        engine.run(Netexec(9999, 8081), client.namespace, families=network.families, process=Process("h"))
    with pytest.raises(ConnectionRefusedError):
        get(client, "/", 9999)


def test_requests_follow_each_other_on_one_connection(client: Host, target: Host) -> None:
    dialing = f"/dial?host={target.addresses['IPv4']}&port=8080&request=hostname"
    with client.namespace.socket() as sock:
        sock.settimeout(5)
        sock.connect(("127.0.0.1", 8080))
        for path, more in ((dialing, ""), ("/echo?msg=two", ""), ("/echo?msg=three", "Connection: close\r\n")):
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())
        received = b"".join(iter(lambda: sock.recv(1000), b""))
    assert [received.index(text) for text in (b"target", b"two", b"three")] == sorted(
        received.index(text) for text in (b"target", b"two", b"three")
    )


def test_an_answer_larger_than_a_buffer_arrives_whole(client: Host) -> None:
    long = "a" * 900_000
    with client.namespace.socket() as sock:
        sock.settimeout(5)
        sock.connect(("127.0.0.1", 8080))
        sock.sendall(f"GET /echo?msg={long} HTTP/1.0\r\n\r\n".encode())
        received = b"".join(iter(lambda: sock.recv(1 << 20), b""))
    assert received.endswith(b"\r\n\r\n" + long.encode())


def test_a_client_that_has_said_all_gets_its_answer(client: Host, target: Host) -> None:
    dialing = f"/dial?host={target.addresses['IPv4']}&port=8080&request=hostname&tries=50"
    with client.namespace.socket() as sock:
        sock.settimeout(5)
        sock.connect(("127.0.0.1", 8080))
        sock.sendall(f"GET {dialing} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        sock.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: sock.recv(1000), b""))
    assert received.count(b"target") == 50


HELLO = b"GET /echo?msg=hi HTTP/1.1\r\nHost: x\r\n\r\n"
POSTED = b"POST /echo?msg=hi HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
CHUNKED = b"POST /echo?msg=hi HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
WIRE: tuple[tuple[bytes, bytes], ...] = (
    (HELLO, b"200"),
    (HELLO.replace(b"\r\n", b"\n"), b"200"),
    (HELLO.replace(b"x\r\n\r\n", b"x\n\r\n"), b"200"),
    (POSTED, b"200"),
    (POSTED.replace(b"\r\n", b"\n"), b"200"),
    (CHUNKED, b"200"),
    (b"GET /echo?msg=hi HTTP/1.0\n\n", b"200"),
    (b"hostName\n", b"400"),
    (b"hostName\r\n", b"400"),
    (b"\n", b"400"),
    (b"GET /\n", b"400"),
    (b"GET / HTTP/one\n", b"400"),
    (b"G@T / HTTP/1.1\n", b"400"),
    (b"GET / HTTP/1.1\n\n", b"400"),
    (b"GET / HTTP/1.1\nHost: x\nno header\n\n", b"400"),
    (b"GET / HTTP/1.1\nHost: x\nHost: y\n\n", b"400"),
    (b"POST / HTTP/1.1\nHost: x\nContent-Length: x\n\n", b"400"),
    (b"POST / HTTP/1.1\nHost: x\nTransfer-Encoding: gzip\n\n", b"501"),
    (b"GET / HTTP/2.0\nHost: x\n\n", b"505"),
)
"""Bytes to which Go's net/http answers without any more of them, and its status code."""

UNFINISHED = (b"hostName", b"GET / HT", b"GET / HTTP/1.1\n", HELLO[:-1], HELLO[:-4])
"""Bytes to which Go answers when it knows that no more will come; with 400."""


def status_of(pod: Host, data: bytes, *, shut: bool = False) -> bytes:
    """The status code that a server in the pod answers to these bytes, while the connection is open or half closed."""
    with pod.namespace.socket() as sock:
        sock.settimeout(5)
        sock.connect(("127.0.0.1", 8080))
        sock.sendall(data)
        if shut:
            sock.shutdown(socket.SHUT_WR)
        return sock.recv(1000).partition(b" ")[2][:3]


@pytest.mark.parametrize(("data", "code"), WIRE)
def test_what_go_answers_at_once_is_answered_at_once(client: Host, data: bytes, code: bytes) -> None:
    assert status_of(client, data) == code


@pytest.mark.parametrize("data", UNFINISHED)
def test_what_stops_short_is_answered_when_it_stops(client: Host, data: bytes) -> None:
    assert read_request(data, False) is None
    assert status_of(client, data, shut=True) == b"400"


@pytest.mark.parametrize("data", [data for data, code in WIRE if code == b"200"])
def test_a_request_that_comes_in_pieces_is_waited_for(data: bytes) -> None:
    assert [read_request(data[:length], False) for length in range(1, len(data))] == [None] * (len(data) - 1)
    found = read_request(data + HELLO, False)
    assert found is not None
    assert (found[0].path, found[1]) == ("/echo", len(data))


def test_a_client_that_says_nothing_gets_nothing(client: Host) -> None:
    assert status_of(client, b"", shut=True) == b""


@pytest.mark.parametrize(
    "data", [b"HTTP/1.1 200 OK\nContent-Length: 2\n\nab", b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nab"]
)
def test_answers_are_read_as_go_reads_them(data: bytes) -> None:
    assert [read_answer(data[:length], False) for length in range(len(data))] == [None] * len(data)
    assert read_answer(data, False) == (200, b"ab")


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"HTTP/1.1 200 OK\nContent-Length: 1\n\na\r\n\r\nb", (200, b"a")),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 1\r\n\r\na", (204, b"")),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\na", (404, b"a")),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            (200, b"ab"),
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", (200, b"a")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na and more", (200, b"a")),
    ],
)
def test_body_ends_where_its_head_says(data: bytes, read: tuple[int, bytes]) -> None:
    assert read_answer(data, False) == read


def test_sigterm_ends_a_container_after_its_delay(network: Network, engine: Engine) -> None:
    pod, codes = network.add_pod("a1"), list[int]()
    command = Netexec(8080, 8080, delay_shutdown=1)
    container = engine.run(command, pod.namespace, families=network.families, process=Process("h"), ended=codes.append)
    container.terminate()
    assert (get(pod, "/readyz").code, get(pod, "/healthz").code, codes) == (503, 200, [])
    eventually(lambda: codes == [0], within=3, describe="the container to end")
    with pytest.raises(ConnectionRefusedError):
        get(pod, "/hostname")


@pytest.mark.parametrize(
    ("image", "command", "arguments", "parsed"),
    [
        ("agnhost", (), ("netexec", "--http-port=80", "--udp-port", "-1"), Netexec(80, -1)),
        ("agnhost", ("/agnhost", "netexec"), ("--delay-shutdown=5",), Netexec(8080, 8081, 5)),
        ("agnhost", (), (), Pause(2)),
        (
            "agnhost",
            (),
            ("serve-hostname", "--port=80", "--http=false", "--tcp"),
            ServeHostname(80, http=False, tcp=True),
        ),
        ("agnhost", (), ("serve-hostname", "--close"), ServeHostname(9376, close=True)),
        ("agnhost", ("/bin/sh", "-c"), ("sleep 1",), Program(("/bin/sh", "-c", "sleep 1"))),
        ("busybox", (), ("sleep", "1"), Program(("sleep", "1"))),
        ("busybox", (), (), Program(("sh",))),
        ("pause", (), (), Pause(0)),
    ],
)
def test_command_lines(image: str, command: tuple[str, ...], arguments: tuple[str, ...], parsed: object) -> None:
    assert parse(image, command, arguments) == parsed


@pytest.mark.parametrize(
    "line", ["netexec --nothing=1", "netexec --http-port=x", "netexec here", "webhook", *BAD_SERVERS]
)
def test_what_agnhost_refuses_is_refused(line: str) -> None:
    with pytest.raises(CommandError):
        parse("agnhost", (), shlex.split(line))


def test_pause_has_no_other_program() -> None:
    with pytest.raises(NoProgramError, match="sleep"):
        parse("pause", ("sleep",), ("1",))


def raw(pod: Host, kind: socket.SocketKind, port: int, data: bytes = b"") -> bytes:
    """What a server at a port of the pod says."""
    with pod.namespace.socket(socket.AF_INET, kind) as sock:
        sock.settimeout(5)
        sock.connect(("127.0.0.1", port))
        if data:
            sock.send(data)
        return sock.recv(100)


def test_serve_hostname_says_it_over_http_tcp_and_udp(network: Network, engine: Engine) -> None:
    pod, log = network.add_pod("a1"), ContainerLog()
    process = Process("web-1", log=log)
    for command in (ServeHostname(), ServeHostname(80, http=False, tcp=True, udp=True)):
        engine.run(command, pod.namespace, families=network.families, process=process)
    assert get(pod, "/any", 9376).text == "web-1"
    assert raw(pod, socket.SOCK_STREAM, 80) == b"web-1"
    assert raw(pod, socket.SOCK_DGRAM, 80, b"?") == b"web-1"
    said = b"".join(line.text for line in log.lines()).decode()
    assert re.findall(r"(HTTP|TCP|UDP) request from 127.0.0.1", said) == ["HTTP", "TCP", "UDP"]
    assert re.match(r"I\d{4} \d\d:\d\d:\d\d\.\d{6}       1 log.go:244\] Serving on port 9376\.", said)


def test_serve_hostname_closes_connections_where_told_to(network: Network, engine: Engine) -> None:
    pod = network.add_pod("a1")
    engine.run(ServeHostname(close=True), pod.namespace, families=network.families, process=Process("h"))
    with pod.namespace.socket() as sock:
        sock.connect(("127.0.0.1", 9376))
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"Connection: close" in b"".join(iter(lambda: sock.recv(1000), b""))


def test_environment_is_told_over_http_and_udp(network: Network, engine: Engine) -> None:
    pod = network.add_pod("a1")
    process = Process("h", {"NODE_NAME": "a1"})
    engine.run(Netexec(), pod.namespace, families=network.families, process=process)
    assert (get(pod, "/envvar?var=NODE_NAME").code, get(pod, "/envvar?var=NODE_NAME").text) == (200, "a1")
    assert (get(pod, "/envvar").code, get(pod, "/envvar?var=X").code) == (400, 500)
    assert raw(pod, socket.SOCK_DGRAM, 8081, b"ENVVAR NODE_NAME") == b"a1"


def test_requests_are_logged_as_agnhost_does(network: Network, engine: Engine) -> None:
    pod, log = network.add_pod("a1"), ContainerLog()
    engine.run(Netexec(), pod.namespace, families=network.families, process=Process("h", log=log))
    for path in ("/hostname", "/nothing", "/echo?msg=x&code=201", "/dial?host=x"):
        get(pod, path)
    raw(pod, socket.SOCK_DGRAM, 8081, b"echo Abc")
    said = [line.text.decode().partition("] ")[2] for line in log.lines()]
    assert said[:-1] == [
        "Started HTTP server on port 8080",
        "Started UDP server on port  8081",
        "GET /hostname",
        "GET /",
        "GET /echo?msg=x&code=201",
        "GET /dial?host=x&protocol=&port=&request=&tries=",
    ]
    assert said[-1].startswith("Echoing abc to UDP client 127.0.0.1:")


@pytest.mark.parametrize(
    ("data", "ended", "said"),
    [
        (b"a1 10.0.0.1\n", False, 'malformed HTTP response "a1 10.0.0.1"'),
        (b"", True, "EOF"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", True, "unexpected EOF"),
    ],
)
def test_an_answer_that_is_none_is_named(data: bytes, ended: bool, said: str) -> None:
    with pytest.raises(MalformedError, match=re.escape(said)):
        read_answer(data, ended)


def test_a_packed_answer_is_unpacked() -> None:
    packed = gzip.compress(b"web-1")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    assert read_answer(head + packed, False) == (200, b"web-1")
    with pytest.raises(MalformedError, match="gzip"):
        read_answer(head + b"x" * len(packed), False)


def test_answers_in_chunks_are_put_together() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert read_answer(head + b"2\r\nab\r\n1\r\n", False) is None
    assert read_answer(head + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", False) == (200, b"abc")


@pytest.fixture
def real(network: Network) -> Iterator[Host]:
    """A pod on a1 in which the real agnhost runs."""
    program = os.environ.get("AGNHOST", "")
    if not program:
        pytest.skip("AGNHOST names no real agnhost")
    pod = network.add_pod("a1")
    with pod.namespace.entered():
        process = subprocess.Popen([program, "netexec"], stderr=subprocess.DEVNULL)
    with process:

        def serves() -> bool:
            try:
                return get(pod, "/healthz").code == 200
            except ConnectionRefusedError:
                return False

        eventually(serves, within=10, describe="agnhost to serve")
        yield pod
        process.kill()


_DIALS = (
    "host={target}&port=8080&request=hostname&tries=2",
    "host={target6}&port=8080&request=clientip&protocol=HTTP",
    "host=[{target6}]&port=8080&request=clientip",
    "host={target}&port=8080&request=hostname&protocol=udp",
    "host={target6}&port=8080&request=clientip&protocol=udp",
    "host={target}&port=8080&request=echo+ABC&protocol=udp",
    "host={target}&port=81&request=hostname&protocol=udp",
    "host={target6}&port=81&request=hostname",
    "host={target}&port=8080&tries=x&request=hostname",
    "host={target}&port=8080",
    "host={target}&port=8080&request=a&protocol=quic",
    "host={target}&port=99999&request=a",
    "host={target}&port=abc&request=a",
    "host={target}&port=&request=a",
    "host=&port=8080&request=clientip",
    "host={target}&port=8080&request=healthz",
    "host={target}&port=8080&request=hostname&tries=-1",
    "host={target}&port=8080&request=echo%3Fmsg%3Da%26b",
    "host={target}&port=8080&request=echo%3Fmsg%3Da%20b%2526%3C",
)
_PATHS = ("/hostname", "/hostName", "/clientip", "/healthz", "/readyz", "/echo?msg=hi&code=404", "/echo?msg=hi&code=x",
          "/echo?msg=%3Chtml%3E", "/serverport", "/header?key=Accept-Encoding", "/header", "//hostname")  # fmt: skip


def without_numbers(answer: HttpAnswer, pod: Host) -> tuple[int, str, str | None]:
    """What is the same of two pods: not their addresses, nor the ports that the kernel chose."""
    text = answer.text
    for address in pod.addresses.values():
        text = text.replace(address, "SELF")
    return answer.code, re.sub(r"\b\d{5}\b", "PORT", text), answer.headers.get("content-type")


@pytest.mark.parametrize("path", [*(f"/dial?{each}" for each in _DIALS), *_PATHS])
def test_the_real_one_answers_the_same(client: Host, target: Host, real: Host, path: str) -> None:
    asked = path.format(target=target.addresses["IPv4"], target6=target.addresses["IPv6"])
    assert without_numbers(get(client, asked), client) == without_numbers(get(real, asked), real)


@pytest.mark.parametrize("data", [data for data, _ in WIRE])
def test_the_real_one_answers_at_once_too(client: Host, real: Host, data: bytes) -> None:
    assert status_of(client, data) == status_of(real, data)


@pytest.mark.parametrize("data", [b"", *UNFINISHED])
def test_the_real_one_answers_at_the_end_too(client: Host, real: Host, data: bytes) -> None:
    assert status_of(client, data, shut=True) == status_of(real, data, shut=True)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["http", "udp"])
def test_the_real_one_gives_up_in_the_same_words(client: Host, real: Host, protocol: str) -> None:
    asked = f"/dial?host=fd00:10:96::5&port=80&request=hostname&protocol={protocol}"
    first, second = (_slowly(pod, asked) for pod in (client, real))
    assert without_numbers(first, client) == without_numbers(second, real)


def _slowly(pod: Host, path: str) -> HttpAnswer:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(http, "TIMEOUT", 10.0)
        return get(pod, path)
