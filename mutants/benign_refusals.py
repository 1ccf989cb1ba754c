"""Benign rejections: any immediate rejection is correct, whichever error the client's kernel reports for it.

Socket-level load balancers return EHOSTUNREACH from `connect`; a router or a firewall answers "prohibited".
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mutants.data_planes import edited
from mutants.mutant import Mutant
from reference.proxy import expressions as nft
from reference.proxy import uapi
from reference.proxy.base_rules import Chain, Rule
from reference.proxy.decision import Family
from reference.proxy.netlink import attribute, number

_CODES = {"host-unreachable": {"IPv4": 1, "IPv6": 3}, "admin-prohibited": {"IPv4": 13, "IPv6": 1}}
"""The codes for ICMP and ICMPv6 that `reject with icmpx` of nft selects."""


def _refuses(kind: str, family: Family, chain: Chain) -> Chain:
    if chain.name != "reject-chain":
        return chain
    code = attribute(uapi.NFTA_REJECT_ICMP_CODE, bytes([_CODES[kind][family]]))
    reject = nft.expression("reject", number(uapi.NFTA_REJECT_TYPE, uapi.NFT_REJECT_ICMP_UNREACH), code)
    return replace(chain, rules=(Rule(f"reject with icmpx {kind}", reject),))


def _refusing(name: str, kind: str, family: str) -> Mutant:
    sentence = f"All rejections, including those of TCP connections, are ICMP {kind}."
    return Mutant(name, sentence, family, proxy=edited(partial(_refuses, kind)))


BENIGN: list[Mutant] = [
    _refusing("refuses-by-host-unreachable", "host-unreachable", "Cilium, bpf_sock.c: EHOSTUNREACH"),
    _refusing("refuses-by-admin-prohibited", "admin-prohibited", "firewalld, ACLs of OVN"),
]
