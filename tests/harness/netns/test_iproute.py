"""Tests that pyroute2 leaves no descriptor, thread or process behind, and is imported only when needed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.netns import conntrack, iproute, kernel_state
from harness.netns.fabric import Network
from harness.netns.namespace import Namespace


def held() -> tuple[int, int, list[str]]:
    """Return the descriptors, threads and children of this process."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count(), children


def all_uses(network: Network) -> None:
    network.disconnect("a1")
    network.reconnect("a1")
    for namespace in (network.fabric, network.nodes["a1"].namespace):
        assert kernel_state.as_text(namespace)
        assert conntrack.as_text(namespace)
        conntrack.flush(namespace)


def refused(network: Network) -> None:
    with pytest.raises(HarnessError, match=r"^cannot reconnect a1: No such file or directory$"):
        network.reconnect("a1")


def broken_off(network: Network) -> None:
    with iproute.routing(network.fabric, "look") as ip:
        assert next(iter(ip.get_routes()))


def in_a_thread(network: Network) -> None:
    thread = threading.Thread(target=all_uses, args=[network])
    thread.start()
    thread.join()


@pytest.mark.parametrize("use", [all_uses, refused, broken_off, in_a_thread])
def test_no_descriptor_thread_or_process_remains(network: Network, use: Callable[[Network], None]) -> None:
    use(network)  # modules and this thread's home netns stay
    gc.collect()  # collect objects of earlier tests
    before = held()
    for _ in range(5):
        use(network)
    assert held() == before


def test_thread_stays_in_its_netns(namespace: Namespace) -> None:
    before = os.stat("/proc/thread-self/ns/net").st_ino  # noqa: PTH116
    with iproute.routing(namespace, "look"):
        assert os.stat("/proc/thread-self/ns/net").st_ino == namespace.inode  # noqa: PTH116
    assert os.stat("/proc/thread-self/ns/net").st_ino == before  # noqa: PTH116


def test_backend_import_does_not_load_iproute() -> None:
    asked = "import sys, harness.backends.netns; assert 'pyroute2' not in sys.modules"
    subprocess.run([sys.executable, "-c", asked], check=True)
