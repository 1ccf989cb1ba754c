"""Tests the sandbox. A process cannot leave it, so each case runs in a new process without capabilities."""

from __future__ import annotations

import errno
import subprocess
import sys

# Keep only CAP_SETFCAP. Without it, uid 0, as in the sandbox of these tests, cannot be mapped into a user namespace.
ORDINARY = """
import ctypes, struct
header = struct.pack("=II", 0x20080522, 0)
keep = 1 << 31
assert ctypes.CDLL(None).capset(header, struct.pack("=6I", keep, keep, 0, 0, 0, 0)) == 0
from harness.netns import sandbox
from harness.netns.namespace import Namespace
assert not sandbox.able()
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", ORDINARY + script],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_ordinary_process_can_create_netns_after_entering() -> None:
    child = run("""
sandbox.enter()
sandbox.enter()
assert sandbox.able()
with Namespace.create() as one, one.entered():
    print("inside")
""")
    assert (child.stdout, child.stderr) == ("inside\n", "")


def test_ordinary_process_has_loopback_after_entering() -> None:
    child = run("""
import socket
sandbox.enter()
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
    print(socket.if_nameindex())
""")
    assert (child.stdout, child.stderr) == ("[(1, 'lo')]\n", "")


def test_outside_socket_is_in_the_original_netns() -> None:
    child = run("""
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    sandbox.enter()
    with sandbox.outside_socket() as sock:
        sock.connect(server.getsockname())
    with socket.socket() as sock:
        print(sock.connect_ex(server.getsockname()))
""")
    assert (child.stdout, child.stderr) == (f"{errno.ECONNREFUSED}\n", "")


def test_fifth_outside_socket_is_refused_with_the_reason() -> None:
    child = run("""
sandbox.enter()
held = [sandbox.outside_socket() for _ in range(4)]
try:
    sandbox.outside_socket()
finally:
    for each in held: each.close()
""")
    assert "all 4 sockets outside the user namespace are in use" in child.stderr


def test_process_with_threads_is_refused() -> None:
    child = run("""
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
sandbox.enter()
""")
    assert "this process already has 2 threads, and Linux allows this only to a single-threaded process" in child.stderr


FORBIDDEN = """
import os
uid = os.getuid()
from harness.netns.namespace import CLONE_NEWUSER, unshare
unshare(CLONE_NEWUSER)
open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
open("/proc/sys/user/max_user_namespaces", "w").write("0")  # of this user namespace alone
keep = 1 << 31
assert ctypes.CDLL(None).capset(header, struct.pack("=6I", keep, keep, 0, 0, 0, 0)) == 0
home = os.readlink("/proc/self/ns/user")
try:
    sandbox.enter()
finally:
    print(os.readlink("/proc/self/ns/user") == home)
"""


def test_forbidden_user_namespace_names_the_setting_and_changes_nothing() -> None:
    child = run(FORBIDDEN)
    assert "user.max_user_namespaces is 0; as root: sysctl -w user.max_user_namespaces=10000" in child.stderr
    assert child.stdout == "True\n"
