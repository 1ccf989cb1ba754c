"""Tests that the output of nft and iptables is parsed by chain and map, and that a rule's map lookups are found."""

from __future__ import annotations

import pytest

from harness.tracing.packet import Packet
from harness.tracing.rules import Rules, SetLookup, from_iptables, from_nft, lookups, rules_of

NFT = """\
table ip kube-proxy {
\tcomment "rules for kube-proxy"
\tset cluster-ips {
\t\ttype ipv4_addr
\t\tcomment "Active ClusterIPs"
\t\telements = { 10.96.1.1, 10.96.1.2,
\t\t\t     10.96.1.3 }
\t}

\tset pods {
\t\ttype ipv4_addr
\t\tflags interval
\t\telements = { 10.244.0.0/16 }
\t}

\tmap service-ips {
\t\ttype ipv4_addr . inet_proto . inet_service : verdict
\t\telements = { 10.96.1.1 . tcp . 80 comment "a, b" : goto service-a,
\t\t\t     10.96.1.1 . tcp . 8080 : goto service-b }
\t}

\tchain nat-prerouting {
\t\ttype nat hook prerouting priority dstnat; policy accept;
\t\tjump services
\t}

\tchain reject-chain {
\t\tcomment "helper"
\t\treject
\t}

\tchain empty {
\t}
}
table ip6 kube-proxy {
\tchain services {
\t\tip6 daddr . meta l4proto . th dport vmap @service-ips
\t\tdrop
\t}
}
"""
IPTABLES = """\
*nat
:OUTPUT ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
-A OUTPUT -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A
COMMIT
"""
TABLE = "ip kube-proxy"
ASKS = Packet("tcp", "10.244.1.3", 11000, "10.96.1.1", 80, "SYN")
KEY = "10.96.1.1 . tcp . 80"
BY_SERVICE = "ip daddr . meta l4proto . th dport vmap @service-ips"


def test_nft_rules_are_read_by_chain() -> None:
    assert from_nft(NFT).chains == {
        (TABLE, "nat-prerouting"): ["jump services"],
        (TABLE, "reject-chain"): ["reject"],
        (TABLE, "empty"): [],
        ("ip6 kube-proxy", "services"): ["ip6 daddr . meta l4proto . th dport vmap @service-ips", "drop"],
    }


def test_elements_are_read_over_lines_and_commas_in_comments() -> None:
    found = from_nft(NFT).elements
    assert found[TABLE, "cluster-ips"] == ["10.96.1.1", "10.96.1.2", "10.96.1.3"]
    assert found[TABLE, "service-ips"] == [
        '10.96.1.1 . tcp . 80 comment "a, b" : goto service-a',
        "10.96.1.1 . tcp . 8080 : goto service-b",
    ]


def test_rules_of_iptables_are_read_as_they_were_written() -> None:
    assert from_iptables(IPTABLES, "ip").chains == {
        ("ip nat", "OUTPUT"): ["-A OUTPUT -j KUBE-SERVICES"],
        ("ip nat", "KUBE-SERVICES"): ["-A KUBE-SERVICES -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A"],
    }


def test_kernel_rules_take_precedence_over_proxy_rules_and_iptables_text_over_nft() -> None:
    wanted = "table ip nat {\n\tchain OUTPUT {\n\t\twanted\n\t}\n\tchain other {\n\t\twanted\n\t}\n}\n"
    listed = wanted.replace("wanted", "listed")
    texts = {"rules-a1.nft": wanted, "rules-a1-nft.txt": listed, "rules-a1-iptables-save.txt": IPTABLES}
    chains = rules_of(texts, "a1").chains
    assert chains["ip nat", "OUTPUT"] == ["-A OUTPUT -j KUBE-SERVICES"]
    assert chains["ip nat", "other"] == ["listed"]
    assert rules_of({"rules-a1.nft": wanted}, "a1").chains["ip nat", "other"] == ["wanted"]
    assert rules_of(texts, "b1") == Rules()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (BY_SERVICE, [SetLookup("service-ips", KEY, f'{KEY} comment "a, b" : goto service-a')]),
        ("ip saddr @cluster-ips drop", [SetLookup("cluster-ips", "10.244.1.3", "")]),
        ("ip saddr @pods return", []),
        ("ip6 daddr @cluster-ips drop", []),
        ("drop", []),
    ],
    ids=["found", "missing", "ranges", "of the other family", "none"],
)  # fmt: skip
def test_lookups_of_a_rule_are_found(text: str, found: list[SetLookup]) -> None:
    assert list(lookups(text, TABLE, from_nft(NFT), ASKS, 0)) == found


def test_mark_is_looked_up_as_nft_writes_it() -> None:
    rules = Rules(elements={(TABLE, "actions"): ["0x00004002 : goto lb-2"]})
    assert [each.element for each in lookups("meta mark vmap @actions", TABLE, rules, ASKS, 0x4002)] == [
        "0x00004002 : goto lb-2"
    ]
