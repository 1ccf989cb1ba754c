"""Tests that a run changes no network setting of the machine. A network namespace stands in for the machine."""

from __future__ import annotations

import fcntl
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from harness.netns.namespace import Namespace
from harness.netns.process import search_path
from tests.harness.backends.verdicts import JUDGED, trafficdist

HERE = Path("/proc/thread-self/net")
SETTINGS = (Path("/proc/sys/net/ipv4"), Path("/proc/sys/net/ipv6"))
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1


def state() -> Iterator[tuple[str, object]]:
    """Yield the interfaces, addresses, routes, sysctls and rules of this netns."""
    yield "interfaces", socket.if_nameindex()
    for name, columns in (("if_inet6", 6), ("route", 8), ("ipv6_route", 5)):
        text = (HERE / name).read_text() if (HERE / name).exists() else ""
        yield name, sorted(line.split()[:columns] for line in text.splitlines())
    yield "addresses", [line for line in (HERE / "fib_trie").read_text().splitlines() if "|--" in line]
    for path in sorted(each for place in SETTINGS for each in place.rglob("*")):
        if path.is_file():
            try:
                yield str(path), path.read_text()
            except OSError:  # it can only be written, or it belongs to root of the machine
                continue
    try:
        listed = subprocess.run(
            ["nft", "list", "ruleset"], capture_output=True, text=True, check=False, env={"PATH": search_path()}
        )
        yield "rules", listed.stdout
    except FileNotFoundError:
        return


def test_run_changes_no_network_setting_of_the_machine(netns_allowed: None, tmp_path: Path) -> None:
    with Namespace.create() as machine, machine.entered():
        with socket.socket() as control:
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
        before = dict(state())
        ended = trafficdist(
            "run", "--run-test=KEP-4444/zone-hints-keep-traffic-in-the-zone", f"--output-dir={tmp_path}"
        )
        assert ended.returncode in JUDGED, ended.stdout + ended.stderr
        after = dict(state())
    assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == set()
    assert len(before) > 100
