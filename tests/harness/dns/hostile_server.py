"""A hostile DNS server. Arguments: what it answers, and its addresses, separated by commas.

It answers each query over UDP and over TCP in the same way.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

HEAD = 12
POINTER = b"\xc0\x0c"  # the name of the question
ANSWERED = 0x8580  # response, authoritative, recursion desired and available
LONG = 60_000


def question(query: bytes) -> bytes:
    end = query.index(b"\0", HEAD) + 5
    return query[HEAD:end]


def answered(query: bytes, records: list[bytes], *, flags: int = ANSWERED, asked: bytes = b"") -> bytes:
    head = struct.pack(">HHHHHH", int.from_bytes(query[:2], "big"), flags, 1, len(records), 0, 0)
    return head + (asked or question(query)) + b"".join(records)


def address(number: int, name: bytes = POINTER) -> bytes:
    return name + struct.pack(">HHIH", 1, 1, 5, 4) + bytes((10, 99, number >> 8 & 255, number & 255))


def compression_loop(query: bytes) -> bytes:
    here = HEAD + len(question(query))
    return answered(query, [address(1, struct.pack(">H", 0xC000 | here))])


def cut_off(query: bytes) -> bytes:
    return answered(query, [address(1), address(2)])[:-7]


def always_truncated(query: bytes) -> bytes:
    return answered(query, [], flags=ANSWERED | 0x0200)


def long_answer(query: bytes) -> bytes:
    return answered(query, [address(each) for each in range(LONG // 16)])


def forty_records(query: bytes) -> bytes:
    return answered(query, [address(each) for each in range(40)])


def many_records_announced(query: bytes) -> bytes:
    said = answered(query, [address(1)])
    return said[:6] + b"\xff\xff" + said[8:]


def wrong_id(query: bytes) -> bytes:
    return bytes((query[0] ^ 255, query[1])) + answered(query, [address(1)])[2:]


def wrong_question(query: bytes) -> bytes:
    return answered(query, [address(1)], asked=b"\x05wrong\x00\x00\x01\x00\x01")


def echo(query: bytes) -> bytes:
    return query


def garbage(query: bytes) -> bytes:
    return os.urandom(200)


def empty(query: bytes) -> bytes:
    return b""


def silence(query: bytes) -> None:
    return None


def serve_datagrams(sock: socket.socket, reply: Callable[[bytes], bytes | None]) -> None:
    while True:
        query, client = sock.recvfrom(65_535)
        said = reply(query)
        if said is not None:
            with contextlib.suppress(OSError):
                sock.sendto(said, client)


def serve_connection(sock: socket.socket, reply: Callable[[bytes], bytes | None]) -> None:
    with sock, contextlib.suppress(OSError):
        size = int.from_bytes(sock.recv(2, socket.MSG_WAITALL), "big")
        said = reply(sock.recv(size, socket.MSG_WAITALL))
        if said is None:
            time.sleep(3600)
        else:
            sock.sendall(len(said).to_bytes(2, "big") + said)


def serve_connections(listening: socket.socket, reply: Callable[[bytes], bytes | None]) -> None:
    while True:
        sock, _ = listening.accept()
        threading.Thread(target=serve_connection, args=(sock, reply), daemon=True).start()


def main(what: str, addresses: str) -> None:
    reply = globals()[what]
    for each in addresses.split(","):
        family = socket.AF_INET6 if ":" in each else socket.AF_INET
        for kind, serve in ((socket.SOCK_DGRAM, serve_datagrams), (socket.SOCK_STREAM, serve_connections)):
            sock = socket.socket(family, kind)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((each, 53))
            if kind == socket.SOCK_STREAM:
                sock.listen(64)
            threading.Thread(target=serve, args=(sock, reply), daemon=True).start()
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
