"""A name of this process, with which a later process on the same machine can check whether this process is alive.

Process ids are reused, and containers have their own: so the name also has the machine's boot id, the pid namespace,
and the start time.
"""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

from harness.netns.process import start_time


def identity() -> str:
    """Return a readable name: "alice@laptop pid 4711"."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as in containers
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()} pid {os.getpid()}"


def name() -> str:
    """Return the name of this process that `has_ended` expects."""
    return f"{_place()} {os.getpid()} {start_time(os.getpid())}"


def has_ended(named: str) -> bool:
    """Return whether a named process ran on this machine and has ended; False if that is unknown."""
    pid, _, began = named.partition(" ")[2].partition(" ")
    return is_of_here(named) and pid.isdecimal() and began.isdecimal() and start_time(int(pid)) != int(began)


def is_of_here(named: str) -> bool:
    """Return whether a named process runs or ran on this machine, in this boot and this pid namespace."""
    place = _place()
    return bool(place) and named.partition(" ")[0] == place


def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # not Linux, or /proc hides the process
        return ""
