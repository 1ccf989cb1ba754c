"""Tests that a run ends if a thread of the embedded cluster ends unexpectedly, unless the thread is judged."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from emulator.kubelet.kubelet import Kubelet
from harness import threads
from harness.backends.implementation import reference
from harness.backends.netns import NetnsBackend
from harness.backends.protocols import METRICS_PORT
from harness.control_planes.relay import Relay
from harness.errors import DistrustError, InconclusiveError
from harness.eventually import eventually
from harness.judging.exit_codes import ExitCode
from harness.model import manifests
from harness.model.topology import grid
from harness.model.workloads import node_client
from harness.probes.loop import Probe
from mutants.mutant import Mutant
from reference.endpointslice import EndpointSliceController
from tests.harness.conftest import Certify

pytest_plugins = "pytester"

pytestmark = [
    pytest.mark.usefixtures("netns_allowed"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""A killed thread does not close its files and sockets."""

TINY = grid("tiny", {"a": 1})
CONTROLLERS = ("pod-locator-controller", "endpointslice-controller")
LOOPS = ("serving", "dns", "apiserver")  # of asyncio, which catch every error
OWN = ("acknowledge-a1", "proxy-a1", *CONTROLLERS, "probes", *LOOPS)


class KilledError(Exception):
    """The error that ends each thread."""


def _killed(*_: object) -> Any:
    raise KilledError


def _break(thread: threading.Thread, backend: NetnsBackend) -> None:
    """Make a thread fail at its next action. If the thread's loop catches every error, stop the loop."""
    parts = (backend.control_plane, backend.proxy, backend._dns, backend._loop)
    plane, proxies, dns, loop = (cast("Any", each) for each in parts)
    match thread.name:
        case "serving":
            _stop(proxies._serving)
        case "acknowledge-a1":
            proxies._running["a1"]._acknowledgement._write = _killed
        case "proxy-a1":
            proxies._running["a1"]._receive = _killed
        case "dns":
            _stop(dns[0]._server)
        case "pod-locator-controller":
            dns[0]._controller._take_in_events = _killed
        case "endpointslice-controller":
            plane._controller._take_in_events = _killed
        case "apiserver":
            _stop(plane._server)
        case "probes":
            loop._reactor._turn = _killed


def _stop(server: Any) -> None:
    server._loop.call_soon_threadsafe(server._loop.stop)


def _wake(backend: NetnsBackend) -> None:
    """Trigger an action in each thread."""
    node, url = node_client("a1"), urlsplit(backend.control_plane.kubeconfig()["clusters"][0]["cluster"]["server"])
    with contextlib.suppress(OSError):
        socket.create_connection((url.hostname, url.port), 0.1).close()
    with contextlib.suppress(OSError), backend.namespace_of(node).socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.connect(("127.0.0.1", METRICS_PORT))
    plane: Any = backend.control_plane
    slice_ = {
        "metadata": {"generateName": "odd-", "labels": {"kubernetes.io/service-name": "odd"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.9.9.9"], "hints": {"forZones": [{"name": "a"}]}}],
        "ports": [],
    }
    plane.client("test").create("endpointslices", "default", slice_)
    pod = manifests.pod("odd", "a1")
    del pod["metadata"]["name"]
    plane.client("test").create("pods", "default", {**pod, "metadata": {"generateName": "odd-"}})


def _kill(thread: threading.Thread, backend: NetnsBackend) -> None:
    """Break a thread, and trigger actions until it has ended."""
    _break(thread, backend)

    def ended() -> bool:
        if thread.name == "probes":
            with contextlib.suppress(InconclusiveError):
                backend.glance([Probe(backend.namespace_of(node_client("a1")), "TCP", "127.0.0.1", 9, timeout=0.01)])
        else:
            _wake(backend)
        return not thread.is_alive()

    eventually(ended, describe=f"{thread.name} to end")


def test_ended_threads_of_the_embedded_cluster_are_named_with_their_error() -> None:
    before = set(threading.enumerate())
    with NetnsBackend(TINY) as backend:
        backend.dns()
        mine = {each.name: each for each in threading.enumerate() if each not in before and each.name != "run-delay"}
        assert mine.keys() == set(OWN), "`OWN` and `ThreadOwner.threads` must list every thread of an embedded cluster"
        threads.require()
        for name in OWN:
            _kill(mine[name], backend)
            said = "unknown reason" if name in LOOPS else "KilledError"
            with pytest.raises(DistrustError, match=rf"have ended: .*\b{name} \({said}\)"):
                threads.require()
    threads.require()
    gc.collect()


def test_threads_of_the_kubelet_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with NetnsBackend(TINY) as backend:
        before = set(threading.enumerate())
        with Kubelet(backend.kubeconfig(), backend.network) as kubelet:
            mine = {each.name: each for each in threading.enumerate() if each not in before}
            assert {each.name for each in kubelet.threads()} == mine.keys()
            with threads.watched(kubelet.threads):
                cast("Any", kubelet)._is_ours = _killed
                _wake(backend)
                eventually(lambda: not mine["watch-pods"].is_alive(), describe="the kubelet's watch to end")
                with pytest.raises(DistrustError, match=r"watch-pods \(KilledError\)"):
                    threads.require()
    assert "Traceback" in caplog.text
    gc.collect()


class OtherController(EndpointSliceController):
    """A controller other than the reference."""


def test_threads_of_the_judged_component_are_left_to_its_requirements() -> None:
    judged = Mutant("other", "It is not the reference's own.", controller=OtherController)
    before = set(threading.enumerate())
    with NetnsBackend(TINY, implementation=reference(judged)) as backend:
        mine = {each.name: each for each in threading.enumerate() if each not in before}
        with _hushed():
            _kill(mine["endpointslice-controller"], backend)
        threads.require()


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Suppress pytest's warning about an error in a thread."""
    before, threading.excepthook = threading.excepthook, lambda _: None
    yield
    threading.excepthook = before


def test_relay_with_an_ended_thread_raises_an_error_and_can_be_closed() -> None:
    relay = Relay(lambda: 0)
    assert relay.threads() == ()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        relay.listen(listening)
        (thread,) = relay.threads()
        assert relay._loop is not None
        relay._loop._loop.call_soon_threadsafe(relay._loop._loop.stop)
        with threads.watched(relay.threads):
            thread.join()
            with pytest.raises(DistrustError, match=r"relay \(unknown reason\)"):
                threads.require()
        relay.close()


ENDS = """
import threading
from harness import threads

@pytest.fixture
def broken():
    thread = threading.Thread(target=lambda: 1 / 0, name="proxy-a1")
    with threads.watched(lambda: [thread]):
        thread.start()
        thread.join()
        yield

@must("KEP-1/ends")
def test_ends(broken): raise AssertionError("a1 reached nobody")

@must("KEP-1/later")
def test_later(): raise AssertionError("a1 reached nobody")
"""


def test_ended_thread_ends_the_run_with_12(certify: Certify) -> None:
    done = certify(extra=ENDS)

    assert done.code == ExitCode.DISTRUST
    assert done.verdicts == {"ends": "inconclusive", "later": "inconclusive"}
    assert "proxy-a1 (ZeroDivisionError: division by zero)" in done.text
    assert "not run" in done.text
