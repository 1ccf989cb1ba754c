"""The kernel's table of one IP family: loads a whole ruleset, or applies changes to it.

Names follow nftables' nouns. Messages are plain bytes that depend only on the ruleset, not on the node; what belongs to
a node is the socket that carries them.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from reference.proxy.changes import Changes, Element, HairpinElement, MarkElement, forwarding
from reference.proxy.decision import Family
from reference.proxy.drawing import bucket_chain
from reference.proxy.elements import MOST_BYTES, Packer, pack_bucket, pack_intervals, read_clients
from reference.proxy.expressions import NFPROTO
from reference.proxy.netlink import (
    NESTED,
    NLM_F_APPEND,
    NLM_F_CREATE,
    Message,
    NftSocket,
    attribute,
    nested,
    number,
    text,
)
from reference.proxy.ruleset import DROP, REJECT, Ruleset, Sticky, buckets, first_index, mark
from reference.proxy.skeleton import MARK, TABLE, Chain, SetSpec, fixed_chains, set_specs
from reference.proxy.table import targets

MOST_ELEMENT_BYTES = 2 * 96
"""More than one replaced element takes in a transaction, its part of messages and new chains included."""

STAGING = f"{TABLE}-staging"

_NEWTABLE, _GETTABLE, _DELTABLE = 0, 1, 2
_NEWCHAIN, _NEWRULE, _NEWSET = 3, 6, 9
_NEWSETELEM, _GETSETELEM, _DELSETELEM = 12, 13, 14
_SET_INTERVAL, _SET_MAP, _SET_BY_RULES = 0x4, 0x8, 0x10 | 0x20
_HOST_ORDER = 1

_length = struct.Struct("=HH").pack

ChainEdit = Callable[[Family, Chain], Chain]


def as_it_is(_: Family, chain: Chain) -> Chain:
    """The chain, unchanged. Another edit makes another data plane."""
    return chain


class Messages:
    """Builds the messages about one table."""

    def __init__(self, family: Family, table: str = TABLE, edit: ChainEdit = as_it_is) -> None:
        self.family = family
        self._edit = edit
        self.name = table
        self._start = struct.pack(">BBH", NFPROTO[family], 0, 0) + text(1, table)
        self._packer = Packer(family, set_specs(family))
        self._lists = {spec.name: self._start + text(2, spec.name) for spec in set_specs(family)}
        self._elements_of = {spec.name: self._say(f"elements of {spec.name}") for spec in set_specs(family)}

    @property
    def clients(self) -> bytes:
        """What names map `affinity`, as a message's body."""
        return self._lists["affinity"]

    @property
    def table(self) -> bytes:
        """What names the table, as a message's body."""
        return self._start

    def replace_table(self) -> list[Message]:
        """An empty table in place of whatever there was."""
        return [self._create_table(), *self.delete_table(), self._create_table()]

    def delete_table(self) -> list[Message]:
        """No table. It must be there."""
        return [Message(_DELTABLE, 0, self._start, self._say("table"))]

    def skeleton(self, pods: Iterable[str], own: Iterable[str]) -> Iterator[Message]:
        """Sets, chains and rules; and the elements that do not come from Services."""
        yield from (self._set(index, spec) for index, spec in enumerate(set_specs(self.family), 1))
        yield self._elements(_NEWSETELEM, "pods", pack_intervals(pods, self.family))
        yield self._elements(_NEWSETELEM, "own", pack_intervals(own, self.family))
        for chain in fixed_chains(self.family):
            yield from self._chain(chain)
        fixed = pack_bucket(DROP) + pack_bucket(REJECT)
        yield self._elements(_NEWSETELEM, "buckets", fixed)

    def bucket(self, bucket: int) -> Iterator[Message]:
        """The chain that draws from a number of endpoints, and its place in `buckets`."""
        yield from self._chain(bucket_chain(self.family, bucket))
        yield self._elements(_NEWSETELEM, "buckets", pack_bucket(bucket))

    def add(self, wanted: Iterable[Element]) -> Iterator[Message]:
        """Add elements, as few messages as possible, in order."""
        return self._in_lists(_NEWSETELEM, wanted)

    def delete(self, unwanted: Iterable[Element]) -> Iterator[Message]:
        """Delete elements, which must be there."""
        return self._in_lists(_DELSETELEM, unwanted)

    def remembered(self, clients: Sequence[bytes]) -> Iterator[Message]:
        """The elements of map `affinity`, as `read_clients` gave them."""
        return self._in_messages(_NEWSETELEM, "affinity", clients)

    def content(self, ruleset: Ruleset) -> Iterator[Message]:
        """All elements of a ruleset, in an order in which they may come in several transactions: frontends last."""
        wanted = targets(ruleset)
        packed: list[bytes] = []
        for name, frontend, target in wanted:
            if isinstance(target, tuple):
                packed += self._packer.endpoints(frontend, first_index(name), target)
        yield from self._in_messages(_NEWSETELEM, "endpoints", packed)
        sticky = [each for each in wanted if isinstance(each[2], Sticky)]
        yield from self.add(element for each in sticky for element in forwarding(*each))
        yield from self.add(HairpinElement(address) for address in sorted(ruleset.hairpin))
        yield from self.add(MarkElement(name, frontend, mark(name, target)) for name, frontend, target in wanted[::-1])

    def _in_lists(self, kind: int, wanted: Iterable[Element]) -> Iterator[Message]:
        packed: defaultdict[str, list[bytes]] = defaultdict(list)
        pack = self._packer.pack
        for element in wanted:
            packed[element.set_name].append(pack(element))
        for name, parts in packed.items():
            yield from self._in_messages(kind, name, parts)

    def _in_messages(self, kind: int, name: str, packed: Sequence[bytes]) -> Iterator[Message]:
        """Elements of a set have one length, so that a list's length gives how many fit into a message."""
        most = MOST_BYTES // len(packed[0]) if packed else 1
        for first in range(0, len(packed), most):
            yield self._elements(kind, name, b"".join(packed[first : first + most]))

    def _elements(self, kind: int, name: str, packed: bytes) -> Message:
        flags = NLM_F_CREATE if kind == _NEWSETELEM else 0
        body = b"".join((self._lists[name], _length(4 + len(packed), 3 | NESTED), packed))
        return Message(kind, flags, body, self._elements_of[name])

    def _create_table(self) -> Message:
        return Message(_NEWTABLE, NLM_F_CREATE, self._start, self._say("table"))

    def _set(self, index: int, spec: SetSpec) -> Message:
        flags = (_SET_MAP if spec.data_type is not None else 0) | (_SET_INTERVAL if spec.interval else 0)
        flags |= _SET_BY_RULES if spec.size else 0
        body = [self._lists[spec.name], number(3, flags), number(4, spec.key_type), number(5, spec.key_length)]
        if spec.data_type is not None:
            body += [number(6, spec.data_type), number(7, spec.data_length)]
        if spec.size:
            body.append(nested(9, number(1, spec.size)))
        body += [number(10, index), attribute(13, _user_data(spec))]
        return Message(_NEWSET, NLM_F_CREATE, b"".join(body), self._say(f"set {spec.name}"))

    def _chain(self, chain: Chain) -> Iterator[Message]:
        chain = self._edit(self.family, chain)
        what, body = self._say(f"chain {chain.name}"), self._start + text(3, chain.name)
        if hook := chain.hook:
            body += text(7, hook.type) + nested(4, number(1, hook.number), number(2, hook.priority))
        yield Message(_NEWCHAIN, NLM_F_CREATE, body, what)
        for rule in chain.rules:
            body = self._start + text(2, chain.name) + nested(4, rule.expressions)
            yield Message(_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, body, f"rule {rule.text!r} in {what}")

    def _say(self, what: str) -> str:
        return f"{what} of {self.family} {self.name}"


@cache
def messages(family: Family, table: str = TABLE, edit: ChainEdit = as_it_is) -> Messages:
    """The one builder of a table's messages, for all nodes."""
    return Messages(family, table, edit)


class KernelTable:
    """Table `trafficdist` of one IP family, in the netns of a socket. All methods raise `KernelError`."""

    def __init__(self, nft: NftSocket, family: Family, *, edit: ChainEdit = as_it_is) -> None:
        self._nft = nft
        self.family = family
        self._messages = messages(family, edit=edit)
        self._staging = messages(family, STAGING, edit)
        self._buckets: set[int] = set()
        self.most_elements = max(1, nft.limit // MOST_ELEMENT_BYTES - 1)

    def load(self, ruleset: Ruleset) -> None:
        """Replace whatever is there by a ruleset, in as few transactions as the socket's send buffer allows.

        If a table is there, a copy of the new one under another name works meanwhile, even for one transaction: of two
        tables with the same hooks a packet may see the new one before the transaction, and the old one after it, so
        neither. Clients that were remembered for session affinity stay so, but for those that come just now.
        """
        sticky = any(isinstance(target, Sticky) for _, _, target in targets(ruleset))
        clients = read_clients(self._nft.dump(_GETSETELEM, self._messages.clients), self.family) if sticky else []
        parts = self._nft.split(_whole(self._messages, ruleset, clients))
        staged = self._nft.exists(_GETTABLE, self._messages.table)
        if staged:
            self._nft.commit_all(_whole(self._staging, ruleset, clients))
        for part in parts:
            self._nft.commit(part)
        if staged:
            self._nft.commit(self._staging.delete_table())
        self._buckets = set(buckets(ruleset, fixed=True))

    def apply(self, changes: Changes) -> None:
        """Bring changes into the kernel, in two steps, so that no packet finds a slot empty."""
        build = self._messages
        new = {each.mark for each in changes.first_add if isinstance(each, MarkElement)} - self._buckets
        chains = [message for bucket in sorted(new) for message in build.bucket(bucket)]
        self._nft.commit_all([*build.delete(changes.first_delete), *chains, *build.add(changes.first_add)])
        self._buckets |= new
        if changes.later_delete:
            self._nft.commit_all(build.delete(changes.later_delete))

    def delete(self) -> None:
        """Take the table away, if it is there."""
        for build in (self._messages, self._staging):
            if self._nft.exists(_GETTABLE, build.table):
                self._nft.commit(build.delete_table())
        self._buckets.clear()


def _whole(build: Messages, ruleset: Ruleset, clients: Sequence[bytes]) -> Iterator[Message]:
    yield from build.replace_table()
    yield from build.skeleton(ruleset.pods, ruleset.own)
    for bucket in buckets(ruleset):
        yield from build.bucket(bucket)
    yield from build.remembered(clients)
    yield from build.content(ruleset)


def _user_data(spec: SetSpec) -> bytes:
    """What nft wants to know of a set to print it: which byte order marks have in it. Type, length, value each."""
    key = _HOST_ORDER if spec.host_order_key else 0
    data = _HOST_ORDER if spec.data_type == MARK else 0
    return b"".join(struct.pack("=BBI", kind, 4, value) for kind, value in ((0, key), (1, data)))
