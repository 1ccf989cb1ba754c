"""The emulated agnhost gives the `kubeconfig` backend the same answers as the real one.

The comparison needs the real agnhost in the cache.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from emulator.kubelet.emulated_agnhost import EmulatedAgnhost
from emulator.kubelet.images import EMULATED_AGNHOST, CommandError, MissingImageError, Netexec, command_of, programs_of
from emulator.kubelet.sandbox import PATH, NoProgramError, Sandbox
from harness.binaries import find
from harness.errors import UnavailableError
from harness.event_loop import EventLoop
from harness.eventually import eventually
from harness.netns import http
from harness.netns.fabric import Network, NetworkPeer
from harness.netns.http import HttpResponse

CLOSED = 81
OTHER = "OTHER: connect: no route to host\n"

Run = Callable[..., EmulatedAgnhost]


@pytest.fixture
def run(network: Network) -> Iterator[Run]:
    """Yield a function that runs a container in a pod."""
    with EventLoop("kubelet-loop") as loop:

        def run(
            pod: NetworkPeer, command: Netexec, name: str = "h", ended: Any = lambda _code: None
        ) -> EmulatedAgnhost:
            made = EmulatedAgnhost(command, name, pod.namespace, loop)
            made.start(network.families, ended)
            return made

        yield run


@pytest.fixture
def target(network: Network, run: Run) -> NetworkPeer:
    """A pod on b1 that serves HTTP and UDP on port 8080."""
    pod = network.add_pod("b1")
    run(pod, Netexec(8080, 8080), "target")
    return pod


@pytest.fixture
def client(network: Network, run: Run) -> NetworkPeer:
    """A pod on a1 with the default ports."""
    pod = network.add_pod("a1")
    run(pod, Netexec(), socket.gethostname())
    return pod


def get(pod: NetworkPeer, path: str, port: int = 8080) -> HttpResponse:
    """Send a GET to a pod from its own netns."""
    return http.get(pod.namespace, "127.0.0.1", port, path)


def dial(
    pod: NetworkPeer, address: str, port: int = 8080, *, request: str = "hostname", **more: object
) -> dict[str, Any]:
    """Return the result of `/dial`."""
    rest = "".join(f"&{name}={value}" for name, value in more.items())
    answer = get(pod, f"/dial?host={address}&port={port}&request={request}{rest}")
    assert answer.code == 200, answer.text
    found: dict[str, Any] = json.loads(answer.text)
    return found


@pytest.mark.parametrize("protocol", ["http", "udp"])
@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_dial_reports_which_pod_answered_each_try(
    client: NetworkPeer, target: NetworkPeer, protocol: str, family: Any
) -> None:
    found = dial(client, target.addresses[family], tries=3, protocol=protocol)
    assert found == {"responses": ["target"] * 3}


def test_clients_see_their_own_address(client: NetworkPeer, target: NetworkPeer) -> None:
    (seen,) = dial(client, target.addresses["IPv6"], request="clientip")["responses"]
    assert re.fullmatch(r"\[fd00:10:244:1::2\]:\d+", seen)


@pytest.mark.parametrize("protocol", ["http", "udp"])
def test_refusal_has_the_error_text_of_go(client: NetworkPeer, target: NetworkPeer, protocol: str) -> None:
    found = dial(client, target.addresses["IPv4"], CLOSED, protocol=protocol, tries=2)
    assert ["connection refused" in each for each in found["errors"]] == [True, True]
    assert "responses" not in found


def test_connect_command_is_silent_unless_it_fails(client: NetworkPeer, target: NetworkPeer) -> None:
    def connect(address: str, port: int) -> object:
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        command = quote(f"/agnhost connect {place} --timeout=1s")
        return json.loads(get(client, f"/shell?cmd={command}").text)

    refused, late = ({"error": "exit status 1", "output": f"{said}\n"} for said in ("REFUSED", "TIMEOUT"))
    assert [connect(address, 8080) for address in target.addresses.values()] == [{}, {}]
    assert [connect(address, CLOSED) for address in target.addresses.values()] == [refused, refused]
    assert connect("203.0.113.1", 80) in (late, {"error": "exit status 1", "output": OTHER})


def test_a_client_with_many_tries_reports_each(client: NetworkPeer, target: NetworkPeer) -> None:
    assert len(dial(client, target.addresses["IPv4"], CLOSED, tries=1000)["errors"]) == 1000


def test_two_containers_of_a_pod_have_a_port_each(network: Network, run: Run) -> None:
    pod = network.add_pod("a1")
    for port in (8080, 9090):
        run(pod, Netexec(port, port), f"at-{port}")
    assert (get(pod, "/hostname").text, get(pod, "/hostname", 9090).text) == ("at-8080", "at-9090")


def test_a_taken_port_is_refused_and_nothing_stays_open(run: Run, client: NetworkPeer) -> None:
    with pytest.raises(OSError, match="in use"):
        run(client, Netexec(9999, 8081))
    with pytest.raises(ConnectionRefusedError):
        get(client, "/", 9999)


def test_requests_follow_each_other_on_one_connection(client: NetworkPeer, target: NetworkPeer) -> None:
    dialing = f"/dial?host={target.addresses['IPv4']}&port=8080&request=hostname"
    with client.namespace.socket() as sock:
        sock.settimeout(5)
        sock.connect(("127.0.0.1", 8080))
        for path, more in ((dialing, ""), ("/clientip", ""), ("/hostname", "Connection: close\r\n")):
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())
        received = b"".join(iter(lambda: sock.recv(1000), b""))
    said = [received.index(text) for text in (b"target", b"127.0.0.1:", socket.gethostname().encode())]
    assert said == sorted(said)


def test_a_server_without_a_port_for_udp_has_none(network: Network, run: Run) -> None:
    pod = network.add_pod("a1")
    run(pod, Netexec(8080, -1))
    assert get(pod, "/hostname").code == 200
    assert "connection refused" in dial(pod, "127.0.0.1", 8081, protocol="udp")["errors"][0]


def test_sigterm_ends_a_container_after_its_delay(network: Network, run: Run) -> None:
    pod, codes = network.add_pod("a1"), list[int]()
    container = run(pod, Netexec(8080, 8080, delay_shutdown=1), ended=codes.append)
    container.terminate()
    assert (get(pod, "/healthz").code, codes) == (200, [])
    eventually(lambda: codes == [0], describe="the container to end")
    with pytest.raises(ConnectionRefusedError):
        get(pod, "/hostname")


def test_sigkill_ends_a_container_immediately(network: Network, run: Run) -> None:
    pod, codes = network.add_pod("a1"), list[int]()
    container = run(pod, Netexec(delay_shutdown=60), ended=codes.append)
    container.terminate()
    container.kill()
    eventually(lambda: codes == [137], describe="the container to end")


@pytest.mark.parametrize(
    ("image", "command", "arguments", "parsed"),
    [
        (EMULATED_AGNHOST, (), ("netexec", "--http-port=80", "--udp-port=-1"), Netexec(80, -1)),
        (f"{EMULATED_AGNHOST}:2.53@sha256:0", ("/agnhost", "netexec"), ("--delay-shutdown=5",), Netexec(8080, 8081, 5)),
        (EMULATED_AGNHOST, (), (), Netexec(serves=False)),
        (EMULATED_AGNHOST, ("/bin/sh", "-c"), ("sleep 1",), ("/bin/sh", "-c", "sleep 1")),
        ("agnhost", (), ("netexec", "--http-port=80"), ("/agnhost", "netexec", "--http-port=80")),
        ("registry.k8s.io/e2e-test-images/agnhost:2.53", (), (), ("/agnhost", "pause")),
        ("agnhost", ("/bin/sh", "-c"), ("sleep 1",), ("/bin/sh", "-c", "sleep 1")),
        ("busybox", (), ("sleep", "1"), ("sleep", "1")),
        ("busybox", (), (), ("sh",)),
        ("pause", (), (), Netexec(serves=False)),
    ],
)
def test_command_lines_are_parsed(
    image: str, command: tuple[str, ...], arguments: tuple[str, ...], parsed: object
) -> None:
    assert command_of(image, command, arguments) == parsed


@pytest.mark.parametrize("line", ["netexec --nothing=1", "netexec --http-port=x", "netexec here", "webhook"])
def test_unsupported_command_is_refused(line: str) -> None:
    with pytest.raises(CommandError):
        command_of(EMULATED_AGNHOST, (), shlex.split(line))


def test_pause_image_contains_no_other_program() -> None:
    with pytest.raises(NoProgramError, match="sleep"):
        command_of("pause", ("sleep",), ("1",))


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("nginx:1.29", "an embedded cluster has agnhost, busybox and pause only"),
        ("invalid.registry.invalid/agnhost:1", "no such host"),
        ("agnhost:2.53", "trafficdist components fetch agnhost --from source"),
    ],
)
def test_missing_image_has_a_reason(image: str, said: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAFFICDIST_CACHE", str(tmp_path))
    with pytest.raises(MissingImageError, match=re.escape(said)):
        programs_of(image)


@pytest.fixture
def real(network: Network) -> Iterator[NetworkPeer]:
    """A pod on a1 in which the real agnhost runs."""
    pod = network.add_pod("a1")

    def serves() -> bool:
        try:
            return get(pod, "/healthz").code == 200
        except ConnectionRefusedError:
            return False

    with open(os.devnull, "r+b") as nothing, contextlib.ExitStack() as held:  # noqa: PTH123  a device
        try:
            programs = {"/agnhost": find("agnhost")}
            inside = Sandbox(pod.namespace, hostname=socket.gethostname(), programs=programs)
            held.callback(inside.close)
            process = inside.start(
                ["/agnhost", "netexec"],
                env={"PATH": PATH},
                stdin=nothing.fileno(),
                stdout=nothing.fileno(),
                stderr=nothing.fileno(),
            )
        except UnavailableError as error:
            pytest.skip(str(error))
        held.callback(process.close)
        eventually(serves, describe="agnhost to serve")
        yield pod


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a longer HTTP timeout than one try of `/dial` may take."""
    monkeypatch.setattr(http, "TIMEOUT", 10.0)


_DIALS = (
    "host={target}&port=8080&request=hostname&tries=2",
    "host={target6}&port=8080&request=clientip",
    "host={target}&port=8080&request=hostname&protocol=udp",
    "host={target6}&port=8080&request=clientip&protocol=udp",
    "host={target}&port=8080&request=healthz",
    "host={target}&port=8080&request=hostname&tries=-1",
)
_PATHS = ("/hostname", "/clientip", "/healthz", "/shell?cmd=cat%20/proc/sys/net/ipv4/ip_local_port_range",
          "/shell?cmd=/agnhost%20connect%20{target}:8080%20--timeout=1s",
          "/shell?cmd=/agnhost%20connect%20{target}:81%20--timeout=1s")  # fmt: skip


def without_numbers(answer: HttpResponse, pod: NetworkPeer) -> tuple[int, str]:
    """Return the answer without the pod's addresses and the kernel's ephemeral ports."""
    text = answer.text
    for address in pod.addresses.values():
        text = text.replace(address, "SELF")
    return answer.code, re.sub(r"\b\d{5}\b", "PORT", text)


@pytest.mark.parametrize("path", [*(f"/dial?{each}" for each in _DIALS), *_PATHS])
def test_real_agnhost_gives_the_same_answers(
    client: NetworkPeer, target: NetworkPeer, real: NetworkPeer, path: str
) -> None:
    asked = path.format(target=target.addresses["IPv4"], target6=target.addresses["IPv6"])
    assert without_numbers(get(client, asked), client) == without_numbers(get(real, asked), real)


@pytest.mark.parametrize("protocol", ["http", "udp"])
@pytest.mark.parametrize(
    "failure",
    [
        ("{target}", "connection refused"),
        pytest.param(("fd00:10:96::5", "timeout|deadline exceeded"), marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("patient")
def test_real_agnhost_fails_with_the_same_messages(
    client: NetworkPeer, target: NetworkPeer, real: NetworkPeer, protocol: str, failure: tuple[str, str]
) -> None:
    place, words = failure
    address = place.format(target=target.addresses["IPv4"])
    for pod in (client, real):
        (error,) = dial(pod, address, CLOSED, protocol=protocol)["errors"]
        assert re.search(words, error), error
