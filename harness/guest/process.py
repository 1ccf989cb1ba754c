"""This process, named so that a later one on the same machine can tell whether it still lives.

A process id alone is used again, and a container has ids of its own: the name says also which boot of which machine it
was, which pid namespace, and when the process began.
"""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

from harness.netns.process import start_time


def identity() -> str:
    """For people: "alice@laptop pid 4711"."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()} pid {os.getpid()}"


def name() -> str:
    """For `has_ended`."""
    return f"{_place()} {os.getpid()} {start_time(os.getpid())}"


def has_ended(named: str) -> bool:
    """Whether the process that was named so was one of this machine, and is no more; False where it cannot be told."""
    pid, _, began = named.partition(" ")[2].partition(" ")
    return is_of_here(named) and pid.isdecimal() and began.isdecimal() and start_time(int(pid)) != int(began)


def is_of_here(named: str) -> bool:
    """Whether a process that was named so is or was one of this machine, of this boot and this pid namespace."""
    place = _place()
    return bool(place) and named.partition(" ")[0] == place


def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # not Linux, or hidden from us
        return ""
