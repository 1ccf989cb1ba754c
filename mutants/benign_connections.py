"""Benign proxies that translate connections in the client's pod, or that cut connections to removed endpoints.

Socket-level load balancers translate connections on the client's side, so the client's node only sees a connection to
the endpoint. No KEP defines what happens to an open connection to a removed endpoint.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mutants.benign_proxies import RewritesRules
from mutants.mutant import Mutant
from reference.client import Event, Key, Object, key_of
from reference.proxy import ServiceProxy, uapi
from reference.proxy import expressions as nft
from reference.proxy.base_rules import Chain, Rule
from reference.proxy.conntrack import Conntrack
from reference.proxy.decision import Family
from reference.proxy.expressions import NFPROTO
from reference.proxy.netlink import KernelError, NftSocket, attributes, nested
from reference.proxy.nftables import KernelTable
from reference.proxy.ruleset import Ruleset, StickyEndpoints

TCP = 6
_TRANSPORT = uapi.NFT_PAYLOAD_TRANSPORT_HEADER
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


# In the client's network namespace


@contextlib.contextmanager
def _entered(netns: int) -> Iterator[None]:
    """Move the thread into the netns of a file descriptor during the context. Raises `OSError` for any other file."""
    with Path("/proc/thread-self/ns/net").open() as own:
        if _libc.setns(netns, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns to the netns of descriptor {netns}")
        try:
            yield
        finally:
            _libc.setns(own.fileno(), CLONE_NEWNET)


@contextlib.contextmanager
def _netns_of_the_process() -> Iterator[dict[str, int]]:
    """Return an open descriptor for each network namespace of this process, by the name of the network namespace.

    They include the network namespaces of all pods. Each one is opened immediately, because it may exist only briefly.
    """
    found: dict[str, int] = {}
    try:
        for path in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                if path.readlink().name.startswith("net:"):
                    mine = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                    name = Path(f"/proc/self/fd/{mine}").readlink().name
                    if name in found or not name.startswith("net:"):
                        os.close(mine)
                    else:
                        found[name] = mine
        yield found
    finally:
        for each in found.values():
            os.close(each)


_ANYWHERE = {"IPv4": (socket.AF_INET, "192.0.2.1"), "IPv6": (socket.AF_INET6, "2001:db8::1")}


def _address(family: Family) -> str:
    """Return the source address for outgoing packets in this network namespace, or "" if it has no route."""
    kind, anywhere = _ANYWHERE[family]
    with socket.socket(kind, socket.SOCK_DGRAM) as sender:
        try:
            sender.connect((anywhere, 9))
        except OSError:
            return ""
        return str(sender.getsockname()[0])


def _first_packets_alone(_: Family, chain: Chain) -> Chain:
    """Translate only new TCP connections. An open connection keeps the translation of its node."""
    if chain.hook is None:
        return chain
    if chain.name != "output":
        return replace(chain, rules=())
    first = nft.FIRST_REGISTER
    protocol, flags = nft.load_meta(uapi.NFT_META_L4PROTO, first), nft.load_payload(_TRANSPORT, 13, 1, first)
    not_tcp, goes_on = nft.compare(first, bytes([TCP]), equal=False), nft.compare(first, b"\x02", equal=False)
    leave = nft.verdict(nft.Verdict.RETURN)
    rules = (
        Rule("meta l4proto != tcp return", protocol + not_tcp + leave),
        Rule("tcp flags != syn return", flags + goes_on + leave),
    )
    return replace(chain, rules=(*rules, *chain.rules))


class _RulesInClientPods(KernelTable):
    """From the next change on, also loads the rules, except those for session affinity, into each pod on the node."""

    def __init__(self, nft_socket: NftSocket, family: Family) -> None:
        super().__init__(nft_socket, family)
        self._looked_at: dict[str, tuple[NftSocket, KernelTable] | None] = {}

    def __del__(self) -> None:
        for name in list(self._looked_at):
            self._leave(name)

    def load(self, ruleset: Ruleset) -> None:
        super().load(ruleset)
        plain = {
            service: action for service, action in ruleset.services.items() if not isinstance(action, StickyEndpoints)
        }
        with _netns_of_the_process() as there:
            for name in self._looked_at.keys() - there.keys():
                self._leave(name)
            for name, netns in there.items():
                with contextlib.suppress(OSError, KernelError):  # the pod has been deleted in the meantime
                    if name not in self._looked_at:
                        self._look_at(name, netns, ruleset.own)
                    if (found := self._looked_at.get(name)) is not None:
                        found[1].load(replace(ruleset, services=plain, external={}))

    def _look_at(self, name: str, netns: int, own: Iterable[str]) -> None:
        """Maintain a table in a network namespace that belongs to a pod on this node. `own` also has single addresses.

        A network namespace without an address is checked again later, because its pod may still be starting.
        """
        networks = [each for each in map(ipaddress.ip_network, own) if each.num_addresses > 1]
        with _entered(netns):
            if not (address := _address(self.family)):
                return
            if not any(ipaddress.ip_address(address) in each for each in networks):
                self._looked_at[name] = None
                return
            nft_socket = NftSocket()
        self._looked_at[name] = nft_socket, KernelTable(nft_socket, self.family, edit=_first_packets_alone)

    def _leave(self, name: str) -> None:
        if (found := self._looked_at.pop(name)) is not None:
            found[0].close()


# Connections to removed endpoints


class _ConntrackWithoutRules(Conntrack):
    def cut(self, addresses: Iterable[bytes]) -> None:
        """Delete all TCP connections that were translated to these addresses."""
        left = set(addresses)
        for body in list(self._ask(uapi.IPCTNL_MSG_CT_GET, uapi.NLM_F_DUMP, None, b"")):
            parts = dict(attributes(body[4:]))
            sent, answered = (dict(attributes(parts[each])) for each in (uapi.CTA_TUPLE_ORIG, uapi.CTA_TUPLE_REPLY))
            by, to = dict(attributes(answered[uapi.CTA_TUPLE_IP])), dict(attributes(sent[uapi.CTA_TUPLE_IP]))
            endpoint = bytes(by.get(uapi.CTA_IP_V4_SRC) or by[uapi.CTA_IP_V6_SRC])
            service = bytes(to.get(uapi.CTA_IP_V4_DST) or to[uapi.CTA_IP_V6_DST])
            protocol = dict(attributes(sent[uapi.CTA_TUPLE_PROTO]))[uapi.CTA_PROTO_NUM][0]
            if protocol == TCP and endpoint in left and endpoint != service:
                family: Family = "IPv4" if body[0] == NFPROTO["IPv4"] else "IPv6"
                with contextlib.suppress(KernelError):  # it has already ended
                    original = nested(uapi.CTA_TUPLE_ORIG, bytes(parts[uapi.CTA_TUPLE_ORIG]))
                    self._request(uapi.IPCTNL_MSG_CT_DELETE, family, original)


class _CutsRemovedConnections(ServiceProxy):
    """Cuts the connections to an address that no slice contains any more, after updating the rules."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._connections = _ConntrackWithoutRules()
        self._slices: dict[Key, frozenset[str]] = {}
        self._left: set[str] = set()
        super().__init__(*arguments, **options)

    def stop(self) -> None:
        super().stop()
        self._connections.close()

    def _receive(self, event: Event | None) -> None:
        super()._receive(event)
        if event is None or event.type == "SYNCED" or event.resource != "endpointslices":
            return
        if event.object["addressType"] != "FQDN":
            key = key_of(event.object)
            now = frozenset() if event.type == "DELETED" else _addresses(event.object)
            self._left |= self._slices.get(key, frozenset()) - now
            self._slices[key] = now

    def _write(self) -> bool:
        written = super()._write()
        gone, self._left = self._left.difference(*self._slices.values()), set()
        if gone:
            self._connections.cut(ipaddress.ip_address(each).packed for each in gone)
        return written


def _addresses(endpoint_slice: Object) -> frozenset[str]:
    return frozenset(each["addresses"][0] for each in endpoint_slice.get("endpoints") or ())


BENIGN: list[Mutant] = [
    Mutant("translates-at-the-client",
           "The proxy translates TCP connections of a pod in the pod's network namespace, before the node sees them.",
           "Cilium, socket-level load balancing",
           proxy=partial(ServiceProxy, state=RewritesRules, kernel_table=_RulesInClientPods),
           lacks=frozenset({"LoadBalancerSourceRanges"}),
           unmet=frozenset({"CHANGES/source-ranges-of-a-service", "CHANGES/source-ranges-of-both-families"})),
    Mutant("closes-what-has-left", "The proxy cuts open connections to a removed endpoint.",
           "data planes that flush connection tracking", proxy=_CutsRemovedConnections,
           lacks=frozenset({"OpenConnections"}),
           unmet=frozenset({"KEP-1669/open-connections-outlive-the-last-endpoint"})),
]  # fmt: skip
