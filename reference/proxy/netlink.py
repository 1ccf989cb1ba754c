"""Netlink messages packed by hand, and sockets that send them to netfilter.

Byte templates are 300 times as fast as message classes. After `send`, a batch is committed or its errors are queued.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from reference.proxy import uapi
from reference.proxy.uapi import NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR

WANTED_SEND_BUFFER = 64 << 20
SO_SNDBUFFORCE = 32  # asm-generic/socket.h

_BATCH_BODY = struct.pack(">BBH", 0, 0, uapi.NFNL_SUBSYS_NFTABLES)

_header = struct.Struct("=IHHII")
_attribute = struct.Struct("=HH")
_code = struct.Struct("=i")


def attribute(kind: int, value: bytes) -> bytes:
    return _attribute.pack(4 + len(value), kind) + value + bytes(-len(value) % 4)


def nested(kind: int, *attributes: bytes) -> bytes:
    return attribute(kind | uapi.NLA_F_NESTED, b"".join(attributes))


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack(">I", value & 0xFFFFFFFF))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def attributes(data: bytes | memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the kind (without its flags) and the value of each attribute."""
    view = memoryview(data)
    while len(view) >= 4:
        length, kind = _attribute.unpack_from(view)
        yield kind & uapi.NLA_TYPE_MASK, view[4:length]
        view = view[(length + 3) & ~3 :]


class Message(NamedTuple):
    """A message of a batch. `what` describes its object in error messages."""

    kind: int
    flags: int
    body: bytes
    what: str


class KernelError(Exception):
    """The kernel refused a transaction and changed nothing. The error message names the object and the reason."""

    def __init__(self, what: str, number: int, detail: str = "") -> None:
        super().__init__(f"{what}: {os.strerror(number)}" + (f" ({detail})" if detail else ""))
        self.errno = number


class NetlinkSocket:
    """A socket to a subsystem of netfilter, in the creating thread's netns. Any thread may use it. Raises `OSError`."""

    def __init__(self, subsystem: int) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, uapi.NETLINK_NETFILTER)
        self._socket.bind((0, 0))
        self._subsystem = subsystem << 8
        self._sequence = 0

    def request(self, kind: int, flags: int, body: bytes) -> Iterator[memoryview]:
        """Send one request, and yield the bodies of its replies up to the end of a dump. Raises `KernelError`."""
        self._sequence += 1
        self._socket.send(pack(self._subsystem | kind, NLM_F_REQUEST | flags, self._sequence, body))
        size = 256 << 10 if flags & uapi.NLM_F_DUMP else 16 << 10  # a large buffer is mapped anew for each datagram
        while True:
            for reply, sequence, content in replies(memoryview(self._socket.recv(size))):
                if sequence != self._sequence:
                    continue
                if reply == NLMSG_DONE:
                    return
                if reply == NLMSG_ERROR:  # an acknowledgement has the code 0
                    (code,) = _code.unpack_from(content)
                    if code:
                        raise KernelError("netlink request", -code)
                    return
                yield content

    def close(self) -> None:
        self._socket.close()


class NftSocket(NetlinkSocket):
    """A proxy keeps its socket open, because closing a socket after deletions waits for the kernel (12 to 20 ms)."""

    def __init__(self) -> None:
        super().__init__(uapi.NFNL_SUBSYS_NFTABLES)
        self._socket.setsockopt(uapi.SOL_NETLINK, uapi.NETLINK_CAP_ACK, 1)
        self._socket.setsockopt(uapi.SOL_NETLINK, uapi.NETLINK_EXT_ACK, 1)
        self.limit = _grow_send_buffer(self._socket)
        self._reply = bytearray(64 << 10)

    def commit(self, messages: Sequence[Message]) -> None:
        """Commit one transaction. Raises `KernelError`, which names the first object that the kernel refused."""
        first = self._sequence + 1
        parts = [pack(uapi.NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, first, _BATCH_BODY)]
        sequence = first
        for message in messages:
            sequence += 1
            flags = NLM_F_REQUEST | message.flags
            parts.append(pack(self._subsystem | message.kind, flags, sequence, message.body))
        sequence += 1
        parts.append(pack(uapi.NFNL_MSG_BATCH_END, NLM_F_REQUEST, sequence, _BATCH_BODY))
        self._sequence = sequence
        try:
            self._socket.send(b"".join(parts))
        except OSError as error:
            raise KernelError(f"cannot send {len(messages)} netlink messages", error.errno or errno.EIO) from error
        self._raise_errors(first, messages)

    def commit_all(self, messages: Iterable[Message]) -> None:
        """Commit messages in order, in as few transactions as the send buffer allows. Raises `KernelError`."""
        part: list[Message] = []
        used = 0
        for message in messages:
            size = _header.size + len(message.body) + 3
            if part and used + size > self.limit:
                self.commit(part)
                part, used = [], 0
            part.append(message)
            used += size
        if part:
            self.commit(part)

    def exists(self, kind: int, body: bytes) -> bool:
        """Return whether an object exists. Raises `KernelError`."""
        return bool(self._found(kind, uapi.NLM_F_ACK, body))

    def dump(self, kind: int, body: bytes) -> list[bytes]:
        """Return the bodies of all objects of a kind, or [] if their table does not exist. Raises `KernelError`."""
        return self._found(kind, uapi.NLM_F_DUMP, body)

    def _found(self, kind: int, flags: int, body: bytes) -> list[bytes]:
        try:
            return [bytes(each) for each in self.request(kind, flags, body)]
        except KernelError as error:
            if error.errno != errno.ENOENT:
                raise
            return []

    def _raise_errors(self, first: int, messages: Sequence[Message]) -> None:
        refused: KernelError | None = None
        while True:
            try:
                length = self._socket.recv_into(self._reply, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError as error:
                refused = refused or KernelError("transaction", error.errno or errno.EIO)
                if error.errno == errno.ENOBUFS:  # too many errors for the buffer; the first ones follow
                    continue
                break
            refused = refused or _first_error(memoryview(self._reply)[:length], first, messages)
        if refused is not None:
            raise refused


def _grow_send_buffer(sock: socket.socket) -> int:
    """Set the largest permitted send buffer, and return the size of the largest transaction in bytes.

    Only the administrator of the initial user namespace may exceed net.core.wmem_max. For all other users, this setting
    limits a transaction to about 400 KiB on most machines.
    """
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, WANTED_SEND_BUFFER)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WANTED_SEND_BUFFER)
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) - 4096


def pack(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return _header.pack(_header.size + len(body), kind, flags, sequence, 0) + body


def replies(view: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Yield the messages in a received datagram as kind, sequence number and body."""
    while len(view) >= _header.size:
        length, kind, _flags, sequence, _pid = _header.unpack_from(view)
        yield kind, sequence, view[_header.size : length]
        view = view[(length + 3) & ~3 :]


def _first_error(view: memoryview, first: int, messages: Sequence[Message]) -> KernelError | None:
    for kind, sequence, body in replies(view):
        (code,) = _code.unpack_from(body)
        if kind != NLMSG_ERROR or code == 0:
            continue
        index = sequence - first - 1
        what = messages[index].what if 0 <= index < len(messages) else "transaction"
        details = [
            bytes(value).rstrip(b"\0").decode()
            for name, value in attributes(body[20:])
            if name == uapi.NLMSGERR_ATTR_MSG
        ]
        return KernelError(what, -code, "".join(details))
    return None
