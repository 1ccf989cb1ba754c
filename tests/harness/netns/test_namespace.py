from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.netns.namespace import Namespace, roam

SIOCGSKNS = 0x894C


def here() -> int:
    return Path("/proc/thread-self/ns/net").stat().st_ino


def test_thread_is_inside_and_then_back(namespace: Namespace) -> None:
    home = here()
    with namespace.entered():
        assert here() == namespace.inode != home
    assert here() == home


def test_thread_is_back_after_an_exception(namespace: Namespace) -> None:
    home = here()
    with pytest.raises(KeyboardInterrupt), namespace.entered():
        raise KeyboardInterrupt
    assert here() == home


def test_visits_nest(namespace: Namespace) -> None:
    with Namespace.create() as other, namespace.entered():
        with other.entered():
            assert here() == other.inode
        assert here() == namespace.inode


def test_create_from_inside_another_returns_to_it(namespace: Namespace) -> None:
    with namespace.entered(), Namespace.create() as other:
        assert here() == namespace.inode != other.inode


def test_other_threads_stay_where_they_are(namespace: Namespace) -> None:
    places: list[int] = []
    enter, leave = threading.Event(), threading.Event()

    def stay() -> None:
        enter.wait(5)
        places.append(here())
        leave.set()

    thread = threading.Thread(target=stay, daemon=True)
    thread.start()
    home = here()
    with namespace.entered():
        enter.set()
        leave.wait(5)
    thread.join()
    assert places == [home]


def test_thread_that_starts_inside_stays_inside(namespace: Namespace) -> None:
    places: list[int] = []
    with namespace.entered():
        thread = threading.Thread(target=lambda: places.append(here()), daemon=True)
        thread.start()
    thread.join()
    assert places == [namespace.inode]


def test_socket_stays_in_its_netns(namespace: Namespace) -> None:
    with namespace.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(OSError, match="unreachable"):
        sock.connect(("127.0.0.1", 9))  # loopback is down there, but up in our own netns


def test_new_netns_has_only_loopback(namespace: Namespace) -> None:
    with namespace.entered():
        assert socket.if_nameindex() == [(1, "lo")]


def test_closing_twice_is_harmless() -> None:
    namespace = Namespace.create()
    namespace.close()
    namespace.close()
    with pytest.raises(HarnessError, match="this netns is closed"), namespace.entered():
        pytest.fail("entered a closed netns")


def test_entering_a_closed_netns_leaves_the_thread_in_its_own() -> None:
    home, namespace = here(), Namespace.create()
    namespace.close()
    with pytest.raises(HarnessError), namespace.entered():
        pytest.fail("entered a closed netns")
    with Namespace.create() as other, other.entered():
        assert here() == other.inode
    assert here() == home


def test_forgotten_netns_warns_and_closes() -> None:
    namespace = Namespace.create()
    fd = namespace.fd
    with pytest.warns(ResourceWarning, match=rf"unclosed Namespace\(fd={fd}\)"):
        del namespace
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_other_processes_find_it_by_its_path(namespace: Namespace) -> None:
    found = subprocess.run(["stat", "-Lc", "%i", namespace.proc_path], capture_output=True, text=True, check=True)
    assert int(found.stdout) == namespace.inode


EXHAUST = """
import resource
from harness.netns.namespace import Namespace, roam
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
held = [Namespace.create()]
while True:
    held.append({make})
"""


@pytest.mark.parametrize(
    ("make", "what"), [("Namespace.create()", "create a network namespace"), ("held[0].socket()", "open a socket")]
)
def test_exhausted_descriptors_name_the_limit(make: str, what: str) -> None:
    command = [sys.executable, "-c", EXHAUST.format(make=make)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    expected = "all 20 file descriptors of this process are in use; raise the limit: ulimit -n"
    assert f"cannot {what}: {expected}" in child.stderr


def test_roaming_thread_creates_each_socket_in_the_requested_netns(namespace: Namespace) -> None:
    made: list[tuple[int, int]] = []

    def make() -> None:
        roam()
        with Namespace.create() as other:
            for each in (namespace, namespace, other, namespace):
                with each.socket() as sock:
                    made.append((each.inode, netns_of(sock)))
            with other.entered():
                pass
            with namespace.socket() as sock:
                made.append((namespace.inode, netns_of(sock)))

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    thread.join(5)
    assert len(made) == 5
    assert all(wanted == found for wanted, found in made)


def test_roaming_thread_cannot_create_a_socket_in_a_closed_netns() -> None:
    refused: list[str] = []

    def make() -> None:
        roam()
        gone = Namespace.create()
        gone.socket().close()
        gone.close()
        with pytest.raises(HarnessError) as error:
            gone.socket()
        refused.append(str(error.value))

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    thread.join(5)
    assert "this netns is closed" in refused[0]


def netns_of(sock: socket.socket) -> int:
    """Return the inode of a socket's netns."""
    with os.fdopen(fcntl.ioctl(sock, SIOCGSKNS)) as netns:
        return os.fstat(netns.fileno()).st_ino
