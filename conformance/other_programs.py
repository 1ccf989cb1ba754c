"""Other programs on the node of a proxy, which have nftables tables of their own in the node's network namespace.

The programs send netlink messages, to be independent of the version of nft on this machine: one program takes ownership
of the proxy's tables, and another one adds tables that only a newer nft can read.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import NamedTuple

from trafficdist import PROXY, Ability, ClientNetns, Cluster, IneligibleError, node_client

NETLINK_NETFILTER = 12
INET, IPV4, IPV6 = 1, 2, 10  # NFPROTO_…
SUBSYSTEM = 10  # NFNL_SUBSYS_NFTABLES
NEWTABLE, GETTABLE, DELTABLE, NEWCHAIN, NEWRULE, NEWSET = 0, 1, 2, 3, 6, 9  # NFT_MSG_…
BATCH_BEGIN, BATCH_END = 0x10, 0x11
REQUEST, DUMP, CREATE = 0x1, 0x300, 0x400  # NLM_F_…
ERROR, DONE = 2, 3  # NLMSG_…
NESTED = 0x8000
OWNER = 2  # NFT_TABLE_F_OWNER, since Linux 5.12

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")


class Table(NamedTuple):
    family: int
    name: str


NEWER = [Table(family, "other-program") for family in (INET, IPV4, IPV6)]


class Message(NamedTuple):
    """A message about one table: its type and the attributes after the table's name."""

    kind: int
    table: Table
    attributes: bytes = b""


class OtherProgram:
    """A program on a node. When it ends (`close`), the kernel deletes the tables that the program owns."""

    def __init__(self, sock: socket.socket, node: str) -> None:
        """`sock` is a netlink socket in the network namespace of the node."""
        self._socket, self._node = sock, node
        self._socket.bind((0, 0))
        self._port = self._socket.getsockname()[0]

    def close(self) -> None:
        self._socket.close()

    def take_tables(self) -> list[str]:
        """Replace the tables of all other programs with empty tables that this program owns. Return their names.

        From then on, the kernel refuses every write of other programs to these tables, with EPERM. Raises
        `IneligibleError` if the kernel refuses this.
        """
        while tables := self._tables_of_others():
            flags = _number(2, OWNER)
            errors = self.commit(
                [each for table in tables for each in (Message(DELTABLE, table), Message(NEWTABLE, table, flags))]
            )
            if not errors:
                return [each.name for each in tables]
            if errors != {errno.ENOENT}:  # otherwise, a table was deleted in the meantime
                raise IneligibleError(f"no program can take the tables on {self._node}: {_text_of(errors)}")
        return []

    def add_newer_tables(self) -> None:
        """Add one table per family, which sees no packets, and which an older nft cannot read.

        Each table has a set of "typeof queue", and on Linux 6.13 and newer also a rule with a bitwise operation on two
        registers. nft 1.0.6 crashes on both when it lists tables, and on the set when it writes any other table.
        Raises `IneligibleError` if the kernel refuses the tables.
        """
        errors = self.commit([each for table in NEWER for each in (Message(NEWTABLE, table), _newer_set(table))])
        if errors:
            raise IneligibleError(f"no program can add tables on {self._node}: {_text_of(errors)}")
        self.commit([each for table in NEWER for each in _newer_rule(table)])

    def delete_newer_tables(self) -> None:
        self.commit([Message(DELTABLE, table) for table in NEWER])

    def commit(self, messages: Sequence[Message]) -> set[int]:
        """Send one transaction. Return the errors of the messages that the kernel refused, or an empty set."""
        begin = _packed(BATCH_BEGIN, REQUEST, struct.pack(">BBH", 0, 0, SUBSYSTEM))
        end = _packed(BATCH_END, REQUEST, struct.pack(">BBH", 0, 0, SUBSYSTEM))
        parts = (
            _packed(SUBSYSTEM << 8 | each.kind, REQUEST | CREATE * (each.kind != DELTABLE), _body(each))
            for each in messages
        )
        self._socket.send(b"".join([begin, *parts, end]))
        errors = set[int]()
        while True:
            try:
                answer = self._socket.recv(1 << 16, socket.MSG_DONTWAIT)  # `send` returns after the kernel has answered
            except BlockingIOError:
                return errors
            errors.update(-struct.unpack_from("=i", body)[0] for kind, body in _messages(answer) if kind == ERROR)

    def _tables_of_others(self) -> list[Table]:
        self._socket.send(_packed(SUBSYSTEM << 8 | GETTABLE, REQUEST | DUMP, bytes(4)))
        found = list[Table]()
        while True:
            for kind, body in _messages(self._socket.recv(1 << 16)):
                if kind in (DONE, ERROR):
                    return found
                attributes = dict(_attributes(body[4:]))
                owner = attributes.get(7)  # NFTA_TABLE_OWNER
                if owner is None or struct.unpack(">I", owner) != (self._port,):
                    found.append(Table(body[0], attributes[1].rstrip(b"\0").decode()))


def _program_on(cluster: Cluster, node: str) -> closing[OtherProgram]:
    client = node_client(node)
    place = cluster.backend.part(ClientNetns, Ability.OTHER_PROGRAMS, client=client).namespace_of(client)
    return closing(OtherProgram(place.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER), node))


@contextmanager
def owner_of_all_tables(cluster: Cluster, node: str) -> Iterator[OtherProgram]:
    """Run a program that owns all nftables tables on a node, so that the kernel refuses the writes of the proxy.

    The rules of the proxy are lost. If the block raises an error, the proxy is restarted, so that no later scenario
    depends on its recovery. Raises `IneligibleError` if the node has no table, because its proxy uses no nf_tables.
    """
    cluster.backend.need_component(PROXY, cluster.release, [node])
    with _program_on(cluster, node) as program:
        if not program.take_tables():
            raise IneligibleError(f"the proxy on {node} writes no nf_tables rules that the kernel could refuse")
        try:
            yield program
        except Exception:
            program.close()
            cluster.restart(PROXY, on=[node])
            raise


@contextmanager
def tables_of_newer_nft(cluster: Cluster, nodes: Sequence[str]) -> Iterator[None]:
    """Add tables to nodes as in `OtherProgram.add_newer_tables`, and remove them after the block."""
    with ExitStack() as running:
        for node in nodes:
            program = running.enter_context(_program_on(cluster, node))
            running.callback(program.delete_newer_tables)
            program.add_newer_tables()
        yield


def _newer_set(table: Table) -> Message:
    """Return a message that creates a set. Its user data are type, length and value, and may contain user data."""
    queue = _user_data(0, struct.pack("=I", 0))
    typeof = _user_data(0, struct.pack("=I", 4)) + _user_data(1, queue)  # EXPR_VALUE, and the data of its `queue`
    attributes = [
        _text(2, "queues"),
        _number(3, 0),
        _number(4, 4),  # the key is an integer
        _number(5, 2),
        _number(10, 1),
        _attribute(13, _user_data(3, typeof)),
    ]
    return Message(NEWSET, table, b"".join(attributes))


def _newer_rule(table: Table) -> list[Message]:
    """Return messages that create a chain with the rule `meta mark and meta priority`."""
    mark, priority = (_expression("meta", _number(2, key) + _number(1, register)) for key, register in ((3, 8), (2, 9)))
    both = b"".join(_number(kind, value) for kind, value in ((1, 8), (2, 10), (3, 4), (6, 3), (8, 9)))
    expressions = _attribute(4 | NESTED, mark + priority + _expression("bitwise", both))
    return [Message(NEWCHAIN, table, _text(3, "newer")), Message(NEWRULE, table, _text(2, "newer") + expressions)]


def _expression(name: str, attributes: bytes) -> bytes:
    return _attribute(1 | NESTED, _text(1, name) + _attribute(2 | NESTED, attributes))


def _user_data(kind: int, value: bytes) -> bytes:
    return bytes([kind, len(value)]) + value


def _text_of(errors: set[int]) -> str:
    return ", ".join(map(os.strerror, sorted(errors)))


def _body(message: Message) -> bytes:
    family, name = message.table
    return struct.pack(">BBH", family, 0, 0) + _text(1, name) + message.attributes


def _packed(kind: int, flags: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, 0, 0) + body


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(4 + len(value), kind) + value + bytes(-len(value) % 4)


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack(">I", value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    while datagram:
        length, kind, _, _, _ = _HEADER.unpack_from(datagram)
        yield kind, datagram[_HEADER.size : length]
        datagram = datagram[(length + 3) & ~3 :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        length, kind = _ATTRIBUTE.unpack_from(data)
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) & ~3 :]
