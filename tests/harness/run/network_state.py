"""The network settings of a machine: everything that a run, or a program that it judges, could change."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from harness.netns.process import search_path

HERE = Path("/proc/thread-self/net")
SETTINGS = (Path("/proc/sys/net/ipv4"), Path("/proc/sys/net/ipv6"))


def network_state() -> dict[str, object]:
    """Return the interfaces, addresses, routes, sysctls and rules of this thread's netns."""
    return dict(_parts())


def _parts() -> Iterator[tuple[str, object]]:
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
