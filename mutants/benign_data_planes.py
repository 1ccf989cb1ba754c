"""Benign data planes, which use unusual rules, select endpoints differently, translate less, or reject more traffic.

Implementations may differ where clients cannot observe it and no KEP or API reference promises anything.
"""

from __future__ import annotations

import ipaddress
import secrets
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from mutants.benign_proxies import RewritesRules
from mutants.data_planes import LEAVES_UDP_FLOWS, edited
from mutants.load_balancing import KeepsDuplicateSlots, one_endpoint_twice
from mutants.mutant import Mutant
from mutants.wrong_decisions import DecisionInput, deciding
from reference.apiserver.api import SERVICE_CIDRS
from reference.proxy import ServiceProxy, uapi
from reference.proxy import expressions as nft
from reference.proxy.base_rules import (
    TABLE,
    Chain,
    Rule,
    address_length,
    load_destination,
    load_service_address,
    load_source,
    second_field,
)
from reference.proxy.decision import Decision, Family, ServicePort
from reference.proxy.netlink import Message, NftSocket, attribute, nested, number
from reference.proxy.nftables import STAGING, KernelTable, MessageBuilder
from reference.proxy.ruleset import (
    LOCAL_LIST,
    Endpoint,
    MapName,
    PortEntries,
    RuleAction,
    Ruleset,
    ServiceAddress,
    StickyEndpoints,
    render,
)
from reference.proxy.state import State
from reference.proxy.table import actions

FIRST = nft.FIRST_REGISTER
PROTOCOLS = {"TCP": 6, "UDP": 17, "SCTP": 132}
ECHO_REQUEST = {"IPv4": (1, 8), "IPv6": (58, 128)}  # protocol, type


# The choice of endpoints


def _hashes_the_client(seed: int, family: Family, chain: Chain) -> Chain:
    """Choose the endpoint by jhash over the client's address and port and the service address."""
    if not chain.name.startswith("lb-"):
        return chain
    _, count, *local = chain.name.split("-")
    ports = FIRST + 2 * address_length(family) // 4
    length = 2 * address_length(family) + 4
    draw = (
        load_source(family, FIRST)
        + load_destination(family, second_field(family))
        + nft.load_payload(uapi.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 4, ports)
        + nft.hash_of(FIRST, length, below=int(count), seed=seed, first=LOCAL_LIST if local else 0, into=ports + 1)
        + nft.set_mark(ports + 1)
    )
    return replace(chain, rules=(Rule("meta mark set jhash of the connection", draw), *chain.rules[1:]))


def _seeded(socket: NftSocket, family: Family) -> KernelTable:
    return KernelTable(socket, family, edit=partial(_hashes_the_client, secrets.randbits(32)))


# Translation


def _keeps_clients_of_own_pods(family: Family, chain: Chain) -> Chain:
    """Preserve the address of external clients if the endpoint is on this node, regardless of the traffic policy."""
    if chain.name != "masquerading":
        return chain
    own = load_destination(family, FIRST) + nft.lookup("own", FIRST) + nft.verdict(nft.Verdict.RETURN)
    *rules, last = chain.rules
    return replace(chain, rules=(*rules, Rule("daddr @own return", own), last))


def _on_one_address(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
    return render(port, decision, node, [each for each in addresses if ":" not in each])


# Addresses and ports without a Service


def _of_services(family: Family) -> bytes:
    """Match packets to the cluster IP ranges."""
    network = next(each for each in map(ipaddress.ip_network, SERVICE_CIDRS) if f"IPv{each.version}" == family)
    offset, length = (16 if family == "IPv4" else 24), network.prefixlen // 8
    load = nft.load_payload(uapi.NFT_PAYLOAD_NETWORK_HEADER, offset, length, FIRST)
    return load + nft.compare(FIRST, network.network_address.packed[:length])


def _drops_the_rest(family: Family, chain: Chain) -> Chain:
    if chain.name not in {"prerouting", "output"}:
        return chain
    drop = Rule("daddr in services drop", _of_services(family) + nft.verdict(nft.Verdict.DROP))
    return replace(chain, rules=(*chain.rules, drop))


def _refuses_the_rest(family: Family, chain: Chain) -> Chain:
    """Answer pings to cluster IPs, and reject all other packets to unused cluster IPs and ports."""
    if chain.name not in {"prerouting", "output"}:
        return chain
    protocol, kind = ECHO_REQUEST[family]
    echo = (
        nft.load_meta(uapi.NFT_META_L4PROTO, FIRST)
        + nft.compare(FIRST, bytes([protocol]))
        + nft.load_payload(uapi.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1, FIRST)
        + nft.compare(FIRST, bytes([kind]))
    )
    rest = (
        Rule("echo request to services redirect", _of_services(family) + echo + nft.expression("redir")),
        Rule(
            "daddr in services goto reject-chain",
            _of_services(family) + nft.verdict(nft.Verdict.GOTO, "reject-chain"),
        ),
    )
    return replace(chain, rules=(*chain.rules, *rest))


# A chain for each Service and each endpoint


class _ChainMessages(MessageBuilder):
    """A ruleset with the structure of kube-proxy's: sequential rules jump to a chain for each service address.

    The chain jumps to chains for its endpoints, for example with the probabilities 1/3, 1/2 and 1. Session affinity
    uses maps.
    """

    def __init__(self, family: Family, table: str) -> None:
        super().__init__(family, table, self._dispatching)
        self._dispatch: dict[MapName, list[Rule]] = {"services": [], "external": []}
        self._chains: list[Chain] = []

    def hold(self, ruleset: Ruleset) -> None:
        """Make chains for service ports without session affinity."""
        self._chains, self._dispatch = [], {"services": [], "external": []}
        for index, (name, service, action) in enumerate(actions(ruleset)):
            if isinstance(action, StickyEndpoints):
                continue
            target = "drop-chain" if action == "drop" else "reject-chain"
            if isinstance(action, tuple):
                target = f"svc-{index}"
                self._chains += _service_chains(self.family, target, name, action)
            self._dispatch[name].append(_goes_to(self.family, service, target))

    def skeleton(self, pods: Iterable[str], own: Iterable[str]) -> Iterator[Message]:
        """Create the chains of Services after the sets and before the chains that jump to them."""
        for message in super().skeleton(pods, own):
            if message.what.startswith("chain prerouting of"):
                for chain in self._chains:
                    yield from self._chain(chain)
            yield message

    def _dispatching(self, family: Family, chain: Chain) -> Chain:
        if chain.name not in {"prerouting", "output"}:
            return chain
        outside = load_source(family, FIRST) + nft.lookup("pods", FIRST, inverted=True)
        external = [each._replace(expressions=outside + each.expressions) for each in self._dispatch["external"]]
        first = external if chain.name == "prerouting" else []
        return replace(chain, rules=(*first, *self._dispatch["services"], *chain.rules))


def _service_chains(family: Family, target: str, name: MapName, endpoints: Sequence[Endpoint]) -> Iterator[Chain]:
    """Return the chains of the endpoints of a service address, followed by the chain of the service address."""
    draws = []
    for index, (address, port) in enumerate(endpoints):
        chain, below = f"{target}-sep-{index}", len(endpoints) - index
        drawn = nft.random_number(below, 0, FIRST) + nft.compare(FIRST, bytes(4))
        draws.append(Rule(f"numgen random mod {below} 0 goto {chain}", drawn + nft.verdict(nft.Verdict.GOTO, chain)))
        translate = (
            _value(FIRST, struct.pack("=I", LOCAL_LIST if name == "external" else 0))
            + nft.set_mark(FIRST)
            + _value(FIRST, ipaddress.ip_address(address).packed)
            + _value(second_field(family), struct.pack(">H", port))
            + nft.destination_nat(family, FIRST, second_field(family))
        )
        yield Chain(chain, (Rule(f"dnat to {address} {port}", translate),))
    yield Chain(target, tuple(draws))


def _goes_to(family: Family, service: ServiceAddress, target: str) -> Rule:
    address, protocol = FIRST, second_field(family)
    matched = (
        load_service_address(family)
        + nft.compare(address, ipaddress.ip_address(service.address).packed)
        + nft.compare(protocol, bytes([PROTOCOLS[service.protocol]]))
        + nft.compare(protocol + 1, struct.pack(">H", service.port))
    )
    return Rule(f"daddr {service} goto {target}", matched + nft.verdict(nft.Verdict.GOTO, target))


def _value(register: int, value: bytes) -> bytes:
    data = nested(uapi.NFTA_IMMEDIATE_DATA, attribute(uapi.NFTA_DATA_VALUE, value))
    return nft.expression("immediate", number(uapi.NFTA_IMMEDIATE_DREG, register), data)


class _ChainTable(KernelTable):
    _messages: _ChainMessages
    _staging: _ChainMessages

    def __init__(self, socket: NftSocket, family: Family) -> None:
        super().__init__(socket, family)
        self._messages, self._staging = _ChainMessages(family, TABLE), _ChainMessages(family, STAGING)

    def load(self, ruleset: Ruleset) -> None:
        self._messages.hold(ruleset)
        self._staging.hold(ruleset)
        super().load(replace(ruleset, services=_sticky(ruleset.services), external=_sticky(ruleset.external)))


def _sticky(services: Mapping[ServiceAddress, RuleAction]) -> dict[ServiceAddress, RuleAction]:
    return {service: action for service, action in services.items() if isinstance(action, StickyEndpoints)}


def _weighted(asked: DecisionInput) -> Decision:
    return asked.answer() if asked.port.affinity_seconds else one_endpoint_twice(asked)


BENIGN: list[Mutant] = [
    Mutant("weighted", "One of several endpoints gets twice as many connections as any other endpoint.",
           "IPVS wrr, Cilium weights",
           proxy=partial(ServiceProxy, state=partial(KeepsDuplicateSlots, decide=deciding(_weighted))),
           lacks=frozenset({"EvenShares"}), unmet=frozenset({
               "CHANGES/shares-stay-even",
               "KEP-4444/default-spreads-evenly", "SERVICE/repeated-endpoint-counts-once",
               "KEP-4444/default-spreads-queries-evenly",
               "KEP-4444/zone-spreads-evenly", "KEP-2433/no-endpoint-is-overloaded",
               "KEP-536/selected-endpoints-get-equal-shares",
           })),
    Mutant("seeds-of-its-own", "Each node chooses endpoints by a hash of the connection with its own seed.",
           "Cilium, Maglev", proxy=partial(ServiceProxy, kernel_table=_seeded)),
    Mutant("keeps-flows", "A UDP flow keeps its endpoint even after the endpoint is removed.", "IPVS",
           proxy=partial(ServiceProxy, state=LEAVES_UDP_FLOWS),
           lacks=frozenset({"UDPFlows"}), unmet=frozenset({
               "SERVICE/udp-flow-from-before-the-first-endpoint",
               "SERVICE/udp-flow-leaves-a-removed-endpoint",
               "SERVICE/udp-flows-at-external-addresses",
               "SERVICE/udp-flows-at-node-ports",
               "SERVICE/udp-flows-follow-the-target-port",
               "SERVICE/udp-flows-of-local-policies",
               "SERVICE/udp-flows-older-than-the-proxy-leave-a-removed-endpoint",
               "SERVICE/udp-flows-over-ipv6-leave-a-removed-endpoint",
               *(f"SERVICE/udp-flows{where}-end-with-{what}"
                 for where in ("", "-over-ipv6", "-at-node-ports", "-outside")
                 for what in ("the-last-endpoint", "their-service")),
           })),
    Mutant("keeps-clients-of-own-pods",
           "Endpoints on the node that traffic enters see the addresses of external clients, whatever the policy.",
           "Cilium, OVN-Kubernetes, Calico eBPF", proxy=edited(_keeps_clients_of_own_pods)),
    Mutant("node-ports-on-one-address", "Node ports answer only on the node's IPv4 address.",
           "kube-proxy --nodeport-addresses",
           proxy=partial(ServiceProxy, state=partial(State, render=_on_one_address)),
           lacks=frozenset({"IPv6NodePorts"}), unmet=frozenset({"SERVICE/node-ports-over-ipv6"})),
    Mutant("drops-what-no-service-has", "The proxy drops packets to cluster IPs and ports that belong to no Service.",
           "Cilium, kube-router", proxy=edited(_drops_the_rest)),
    Mutant("refuses-what-no-service-has", "Cluster IPs answer pings, and reject connections to unused ports.",
           "IPVS, kube-proxy in mode nftables", proxy=edited(_refuses_the_rest)),
    Mutant("a-chain-for-each", "Each Service and each endpoint has its own chain, and each change rewrites all chains.",
           "kube-proxy in mode iptables", proxy=partial(ServiceProxy, state=RewritesRules, kernel_table=_ChainTable)),
]  # fmt: skip
