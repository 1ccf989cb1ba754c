"""Loads the kernel's table of one IP family from a complete ruleset, or updates it with changes."""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial

from reference.proxy import elements, uapi
from reference.proxy.balancing_chains import action_chain, ranges_chain
from reference.proxy.base_rules import MARK, TABLE, Chain, SetSpec, fixed_chains, set_specs
from reference.proxy.changes import Changes, Element, HairpinElement, MarkElement, RangesElement, forwarding
from reference.proxy.decision import Family
from reference.proxy.expressions import NFPROTO
from reference.proxy.netlink import Message, NftSocket, attribute, nested, number, text
from reference.proxy.ruleset import DROP, REJECT, Ruleset, SourceRanges, StickyEndpoints, first_index, mark, marks
from reference.proxy.table import actions

MOST_ELEMENT_BYTES = 2 * 96
"""The maximum number of bytes that a replaced element takes in a transaction, including its share of headers."""

STAGING = f"{TABLE}-staging"

_KEY_ORDER, _DATA_ORDER = 0, 1  # nft's types of user data of a set: the byte order of keys and of data
_HOST_ORDER = 1

_length = struct.Struct("=HH").pack

ChainEdit = Callable[[Family, Chain], Chain]


class MessageBuilder:
    """Builds the netlink messages that change one table. The methods only return messages and send nothing."""

    def __init__(self, family: Family, table: str = TABLE, edit: ChainEdit | None = None) -> None:
        self.family = family
        self._edit = edit
        self.name = table
        self.table = struct.pack(">BBH", NFPROTO[family], 0, 0) + text(uapi.NFTA_TABLE_NAME, table)
        self._packer = elements.ElementPacker(family, set_specs(family))
        self._lists = {spec.name: self.table + text(uapi.NFTA_SET_NAME, spec.name) for spec in set_specs(family)}
        self.clients = self._lists["affinity"]  # the body of a message about this map
        self._elements_of = {spec.name: self._describe(f"elements of {spec.name}") for spec in set_specs(family)}

    def tag(self, tag: int) -> bytes:
        """Return the body of a message about one element of the set `tags`."""
        return self._of_elements("tags", elements.pack_tag(tag))

    def delete_tags(self, tags: Iterable[int]) -> Iterator[Message]:
        """Yield messages that delete elements of the set `tags`. The elements must exist."""
        return self._in_messages(uapi.NFT_MSG_DELSETELEM, "tags", [elements.pack_tag(each) for each in tags])

    def whole(self, ruleset: Ruleset, clients: Sequence[bytes]) -> Iterator[Message]:
        """Yield messages that create the table or replace it. `clients` are `affinity` elements from `read_clients`."""
        create = Message(uapi.NFT_MSG_NEWTABLE, uapi.NLM_F_CREATE, self.table, self._describe("table"))
        yield from (create, *self.delete_table(), create)
        yield from self.skeleton(ruleset.pods, ruleset.own)
        for each in marks(ruleset):
            yield from self.action(each)
        for ranges in sorted(set(ruleset.ranges.values())):
            yield from self.ranges(ranges)
        yield from self._in_messages(uapi.NFT_MSG_NEWSETELEM, "affinity", clients)
        yield from self.content(ruleset)

    def delete_table(self) -> list[Message]:
        """Return a message that deletes the table. The table must exist."""
        return [Message(uapi.NFT_MSG_DELTABLE, 0, self.table, self._describe("table"))]

    def skeleton(self, pods: Iterable[str], own: Iterable[str]) -> Iterator[Message]:
        """Yield messages that create sets, chains and rules, and the elements that do not come from Services."""
        yield from (self._set(index, spec) for index, spec in enumerate(set_specs(self.family), 1))
        yield self._elements(uapi.NFT_MSG_NEWSETELEM, "pods", elements.pack_intervals(pods, self.family))
        yield self._elements(uapi.NFT_MSG_NEWSETELEM, "own", elements.pack_intervals(own, self.family))
        for chain in fixed_chains(self.family):
            yield from self._chain(chain)
        yield self._elements(
            uapi.NFT_MSG_NEWSETELEM, "actions", elements.pack_action(DROP) + elements.pack_action(REJECT)
        )

    def action(self, mark: int) -> Iterator[Message]:
        """Yield messages that create the chain of a mark, and the mark's element in the map `actions`."""
        yield from self._chain(action_chain(self.family, mark))
        yield self._elements(uapi.NFT_MSG_NEWSETELEM, "actions", elements.pack_action(mark))

    def ranges(self, ranges: SourceRanges) -> Iterator[Message]:
        yield from self._chain(ranges_chain(self.family, ranges))

    def add(self, wanted: Iterable[Element]) -> Iterator[Message]:
        """Yield as few messages as possible that add elements."""
        return self._in_lists(uapi.NFT_MSG_NEWSETELEM, wanted)

    def delete(self, unwanted: Iterable[Element]) -> Iterator[Message]:
        """Yield messages that delete elements. The elements must exist."""
        return self._in_lists(uapi.NFT_MSG_DELSETELEM, unwanted)

    def content(self, ruleset: Ruleset) -> Iterator[Message]:
        """Yield messages that add all elements. Service addresses are last, in case several transactions are needed."""
        wanted = actions(ruleset)
        packed: list[bytes] = []
        for name, service, action in wanted:
            if isinstance(action, tuple):
                packed += self._packer.endpoints(service, first_index(name), action)
        yield from self._in_messages(uapi.NFT_MSG_NEWSETELEM, "endpoints", packed)
        sticky = [each for each in wanted if isinstance(each[2], StickyEndpoints)]
        yield from self.add(element for each in sticky for element in forwarding(*each))
        yield from self.add(HairpinElement(address) for address in sorted(ruleset.hairpin))
        yield from self.add(RangesElement(*each) for each in ruleset.ranges.items())
        yield from self.add(MarkElement(name, service, mark(name, action)) for name, service, action in wanted[::-1])

    def _in_lists(self, kind: int, wanted: Iterable[Element]) -> Iterator[Message]:
        packed: defaultdict[str, list[bytes]] = defaultdict(list)
        pack = self._packer.pack
        for name, element in map(pack, wanted):
            packed[name].append(element)
        for name, parts in packed.items():
            yield from self._in_messages(kind, name, parts)

    def _in_messages(self, kind: int, name: str, packed: Sequence[bytes]) -> Iterator[Message]:
        """Split elements into messages. All elements of a set have equal length, so the first one is measured."""
        most = elements.MOST_BYTES // len(packed[0]) if packed else 1
        for first in range(0, len(packed), most):
            yield self._elements(kind, name, b"".join(packed[first : first + most]))

    def _elements(self, kind: int, name: str, packed: bytes) -> Message:
        flags = uapi.NLM_F_CREATE if kind == uapi.NFT_MSG_NEWSETELEM else 0
        return Message(kind, flags, self._of_elements(name, packed), self._elements_of[name])

    def _of_elements(self, name: str, packed: bytes) -> bytes:
        head = _length(4 + len(packed), uapi.NFTA_SET_ELEM_LIST_ELEMENTS | uapi.NLA_F_NESTED)
        return b"".join((self._lists[name], head, packed))

    def _set(self, index: int, spec: SetSpec) -> Message:
        flags = uapi.NFT_SET_MAP if spec.data_type is not None else 0
        flags |= uapi.NFT_SET_INTERVAL if spec.interval else 0
        flags |= uapi.NFT_SET_TIMEOUT | uapi.NFT_SET_EVAL if spec.size else 0
        body = [
            self._lists[spec.name],
            number(uapi.NFTA_SET_FLAGS, flags),
            number(uapi.NFTA_SET_KEY_TYPE, spec.key_type),
            number(uapi.NFTA_SET_KEY_LEN, spec.key_length),
        ]
        if spec.data_type is not None:
            body.append(number(uapi.NFTA_SET_DATA_TYPE, spec.data_type))
            body.append(number(uapi.NFTA_SET_DATA_LEN, spec.data_length))
        if spec.size:
            body.append(nested(uapi.NFTA_SET_DESC, number(uapi.NFTA_SET_DESC_SIZE, spec.size)))
        body += [number(uapi.NFTA_SET_ID, index), attribute(uapi.NFTA_SET_USERDATA, _user_data(spec))]
        return Message(uapi.NFT_MSG_NEWSET, uapi.NLM_F_CREATE, b"".join(body), self._describe(f"set {spec.name}"))

    def _chain(self, chain: Chain) -> Iterator[Message]:
        chain = chain if self._edit is None else self._edit(self.family, chain)
        what, body = self._describe(f"chain {chain.name}"), self.table + text(uapi.NFTA_CHAIN_NAME, chain.name)
        if hook := chain.hook:
            place = number(uapi.NFTA_HOOK_HOOKNUM, hook.number) + number(uapi.NFTA_HOOK_PRIORITY, hook.priority)
            body += text(uapi.NFTA_CHAIN_TYPE, hook.type) + nested(uapi.NFTA_CHAIN_HOOK, place)
        yield Message(uapi.NFT_MSG_NEWCHAIN, uapi.NLM_F_CREATE, body, what)
        for rule in chain.rules:
            expressions = nested(uapi.NFTA_RULE_EXPRESSIONS, rule.expressions)
            body = self.table + text(uapi.NFTA_RULE_CHAIN, chain.name) + expressions
            flags = uapi.NLM_F_CREATE | uapi.NLM_F_APPEND
            yield Message(uapi.NFT_MSG_NEWRULE, flags, body, f"rule {rule.text!r} in {what}")

    def _describe(self, what: str) -> str:
        return f"{what} of {self.family} {self.name}"


@cache
def messages(family: Family, table: str = TABLE, edit: ChainEdit | None = None) -> MessageBuilder:
    """Return the message builder for a table. All nodes share this builder."""
    return MessageBuilder(family, table, edit)


class KernelTable:
    """The table `trafficdist` of one IP family, in a socket's network namespace. All methods raise `KernelError`."""

    def __init__(self, nft: NftSocket, family: Family, *, edit: ChainEdit | None = None) -> None:
        self._nft = nft
        self.family = family
        self._messages = messages(family, edit=edit)
        self._staging = messages(family, STAGING, edit)
        self._marks: set[int] = set()
        self._ranges: set[SourceRanges] = set()
        self.most_elements = max(1, nft.limit // MOST_ELEMENT_BYTES - 1)

    def load(self, ruleset: Ruleset) -> None:
        """Replace the table with this ruleset, in as few transactions as the socket's send buffer allows.

        If a table exists, a copy of the new table under another name is active during the replacement, even if one
        transaction is enough. Without the copy, a packet that is traversing the hooks could match neither table.
        Clients in the map `affinity` are kept, except clients that are added during the load.
        """
        sticky = any(isinstance(action, StickyEndpoints) for _, _, action in actions(ruleset))
        dump = partial(self._nft.dump, uapi.NFT_MSG_GETSETELEM, self._messages.clients)
        clients = elements.read_clients(elements.read_elements(dump), self.family) if sticky else []
        messages = list(self._messages.whole(ruleset, clients))
        staged = self._nft.exists(uapi.NFT_MSG_GETTABLE, self._messages.table)
        if staged:
            self._nft.commit_all(self._staging.whole(ruleset, clients))
        self._nft.commit_all(messages)
        if staged:
            self._nft.commit(self._staging.delete_table())
        self._marks, self._ranges = set(marks(ruleset, fixed=True)), set(ruleset.ranges.values())

    def apply(self, changes: Changes) -> None:
        """Apply changes. `later_delete` gets its own transaction, so that no packet selects a deleted endpoint."""
        build = self._messages
        new = {each.mark for each in changes.first_add if isinstance(each, MarkElement)} - self._marks
        ranges = {each.ranges for each in changes.first_add if isinstance(each, RangesElement)} - self._ranges
        chains = [message for each in sorted(new) for message in build.action(each)]
        chains += [message for each in sorted(ranges) for message in build.ranges(each)]
        self._nft.commit_all([*build.delete(changes.first_delete), *chains, *build.add(changes.first_add)])
        self._marks |= new
        self._ranges |= ranges
        if changes.later_delete:
            self._nft.commit_all(build.delete(changes.later_delete))

    def has_tag(self, tag: int) -> bool:
        """Return whether the rules have recorded this tag since the table was loaded."""
        return self._nft.exists(uapi.NFT_MSG_GETSETELEM, self._messages.tag(tag))

    def forget_tags(self, tags: Iterable[int]) -> None:
        """Delete recorded tags from the set `tags`. All of these tags must exist."""
        self._nft.commit_all(self._messages.delete_tags(tags))

    def delete(self) -> None:
        for build in (self._messages, self._staging):
            if self._nft.exists(uapi.NFT_MSG_GETTABLE, build.table):
                self._nft.commit(build.delete_table())
        self._marks.clear()
        self._ranges.clear()


def _user_data(spec: SetSpec) -> bytes:
    """Return the user data that nft needs to print a set: the byte order of marks, as type, length and value."""
    key = _HOST_ORDER if spec.host_order_key else 0
    data = _HOST_ORDER if spec.data_type == MARK else 0
    return b"".join(struct.pack("=BBI", kind, 4, value) for kind, value in ((_KEY_ORDER, key), (_DATA_ORDER, data)))
