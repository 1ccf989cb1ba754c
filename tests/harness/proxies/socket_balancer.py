"""A socket-level load balancer. A BPF program on the root control group rewrites the address of each `connect`.

    python socket_balancer.py ADDRESS ENDPOINT PORT
    python socket_balancer.py GROUP

The first form redirects connections from ADDRESS to ENDPOINT and PORT, like data planes that translate at the socket.
The second form rejects every connection of a control group. The BPF code is written by hand, because tests have no BPF
compiler. The program has one comparison and uses two fields of `struct bpf_sock_addr` (linux/bpf.h).
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import socket
import struct
import sys

SYSCALLS = {"x86_64": 321, "s390x": 351, "ppc64le": 361}
PROG_LOAD, PROG_ATTACH = 5, 8
CGROUP_SOCK_ADDR, INET4_CONNECT = 18, 10
USER_IP4, USER_PORT = 4, 24


def number(address: str) -> int:
    """Return an address as the kernel field stores it, in network byte order."""
    return int(struct.unpack("=i", socket.inet_aton(address))[0])


def instruction(code: int, to: int = 0, of: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("=BBhi", code, of << 4 | to, offset, value)


def program(address: str, endpoint: str, port: int) -> bytes:
    return b"".join(
        [
            instruction(0x61, to=2, of=1, offset=USER_IP4),  # r2 = user_ip4
            instruction(0x56, to=2, offset=4, value=number(address)),  # skip if the address differs
            instruction(0xB4, to=3, value=number(endpoint)),
            instruction(0x63, to=1, of=3, offset=USER_IP4),
            instruction(0xB4, to=3, value=socket.htons(port)),
            instruction(0x63, to=1, of=3, offset=USER_PORT),
            instruction(0xB7, to=0, value=1),  # allow
            instruction(0x95),
        ]
    )


def bpf(command: int, told: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(libc.syscall(SYSCALLS.get(platform.machine(), 280), command, told.ljust(128, b"\0"), 128))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def attach(group: str, code: bytes) -> None:
    """Attach a program to a control group. It runs for each IPv4 `connect` of a socket created in the group."""
    text, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    about = struct.pack("=IIQQ", CGROUP_SOCK_ADDR, len(code) // 8, ctypes.addressof(text), ctypes.addressof(licence))
    loaded = bpf(PROG_LOAD, about.ljust(68, b"\0") + struct.pack("=I", INET4_CONNECT))
    bpf(PROG_ATTACH, struct.pack("=IIII", os.open(group, os.O_RDONLY), loaded, INET4_CONNECT, 0))


if __name__ == "__main__" and len(sys.argv) == 2:
    attach(sys.argv[1], instruction(0xB7) + instruction(0x95))
elif __name__ == "__main__":
    attach("/sys/fs/cgroup", program(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    sys.stdout.write("attached\n")
    sys.stdout.flush()
    signal.pause()
