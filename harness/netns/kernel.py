"""Finds kernel features that an embedded cluster needs and this kernel lacks, by trying each in a new netns.

Reading the kernel's configuration does not suffice: it may be unreadable, modules load on first use (but not for every
user), and containers hide modules. For nf_tables, this module sends a batch without an end message, which the kernel
checks and then discards. pyroute2 cannot send such a batch.
"""

import errno
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import UnavailableError
from harness.netns import rtnetlink
from harness.netns.addresses import FAMILIES, Family
from harness.netns.namespace import Namespace
from harness.netns.netlink import attribute, message

_INET = 1  # NFPROTO_INET
_NESTED = 0x8000
_REQUEST, _CREATE = 0x1, 0x400  # NLM_F_...
_NEWTABLE, _NEWCHAIN, _NEWRULE = 0x0A00, 0x0A03, 0x0A06  # NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_...
_MISSING = frozenset({errno.ENOENT, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT})


@dataclass(frozen=True, slots=True)
class KernelFeature:
    """A kernel feature: its name, the option that enables it, and its module ("" for none)."""

    name: str
    option: str
    module: str


VETH = KernelFeature("veth devices", "CONFIG_VETH", "veth")
IPV6 = KernelFeature("IPv6", "CONFIG_IPV6", "ipv6")
POLICY_ROUTING = KernelFeature("routing rules", "CONFIG_IP_MULTIPLE_TABLES and CONFIG_IPV6_MULTIPLE_TABLES", "")
NF_TABLES = KernelFeature("nf_tables", "CONFIG_NF_TABLES and CONFIG_NF_TABLES_INET", "nf_tables")
NAT_CHAIN = KernelFeature("nf_tables nat chains", "CONFIG_NFT_NAT", "nft_chain_nat")
EXPRESSIONS = {
    "nat": KernelFeature("nf_tables nat", "CONFIG_NFT_NAT", "nft_nat"),
    "masq": KernelFeature("nf_tables masquerade", "CONFIG_NFT_MASQ", "nft_masq"),
    "ct": KernelFeature("conntrack in nf_tables", "CONFIG_NFT_CT", "nft_ct"),
    "reject": KernelFeature("nf_tables reject", "CONFIG_NFT_REJECT_INET", "nft_reject_inet"),
    "numgen": KernelFeature("nf_tables numgen", "CONFIG_NFT_NUMGEN", "nft_numgen"),
}


def require(families: Sequence[Family] = FAMILIES) -> None:
    absent = missing(families)
    if absent:
        raise UnavailableError(explain(absent))


def explain(absent: Sequence[KernelFeature]) -> str:
    load = "load it with `modprobe {}`, as root of the machine"
    fixes = [load.format(each.module) if each.module else "use another kernel" for each in absent]
    return "; ".join(
        f"this kernel has no {each.name} ({each.option}): {fix}" for each, fix in zip(absent, fixes, strict=True)
    )


def missing(families: Sequence[Family] = FAMILIES) -> list[KernelFeature]:
    """Return the features that an embedded cluster needs and this kernel lacks. Raises `UnavailableError`."""
    with Namespace.create() as here, Namespace.create() as there:
        absent = _missing_in_routing(here, there, families)
        return absent + _missing_in_nf_tables(here)


def _missing_in_routing(here: Namespace, there: Namespace, families: Sequence[Family]) -> list[KernelFeature]:
    absent = [] if "IPv6" not in families or _has_ipv6() else [IPV6]
    if not _works(here, rtnetlink.veth("probe", 10, there, peer_name="eth0", peer_index=2)):
        absent.append(VETH)
    rules = [
        rtnetlink.rule(each, "lo", table=100, priority=100) for each in families if each == "IPv4" or IPV6 not in absent
    ]
    return absent if all(_works(here, rule) for rule in rules) else [*absent, POLICY_ROUTING]


def _has_ipv6() -> bool:
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close()
    except OSError:
        return False
    return True


def _works(namespace: Namespace, request: rtnetlink.Request) -> bool:
    try:
        rtnetlink.execute(namespace, [request])
    except rtnetlink.NetlinkError as error:
        if error.number in _MISSING:
            return False
        raise
    return True


def _missing_in_nf_tables(namespace: Namespace) -> list[KernelFeature]:
    try:
        sock = namespace.socket(socket.AF_NETLINK, socket.SOCK_RAW, rtnetlink.NETFILTER)
    except OSError:
        return [NF_TABLES]
    asked = [(NF_TABLES, (_NEWTABLE, attribute(1, b"probe\0"))), (NAT_CHAIN, _nat_chain())]
    asked += [(each, _rule(name)) for name, each in EXPRESSIONS.items()]
    with sock:
        sock.setblocking(False)
        begin = message(0x10, _REQUEST, 0, struct.pack(">BBH", 0, 0, 10))  # NFNL_MSG_BATCH_BEGIN, of subsystem 10
        sock.send(begin + b"".join(_nft(number, *each) for number, (_, each) in enumerate(asked)))
        refused = _refused(sock)
    absent = [feature for number, (feature, _) in enumerate(asked) if refused.get(number) in _MISSING]
    # Without tables or chains, all rules fail.
    return absent[:1] if absent[:1] in ([NF_TABLES], [NAT_CHAIN]) else absent


def _refused(sock: socket.socket) -> dict[int, int]:
    """Return the errnos of rejected messages, by message number. All replies have been queued when `send` returns."""
    found: dict[int, int] = {}
    while True:
        try:
            answer = sock.recv(1 << 16)
        except BlockingIOError:
            return found
        if struct.unpack_from("=H", answer, 4) == (2,):  # NLMSG_ERROR: a header, the error, our header
            error, number = struct.unpack_from("=i8xI", answer, 16)
            found[number] = -error


def _nat_chain() -> tuple[int, bytes]:
    hook = attribute(1, struct.pack(">I", 0)) + attribute(2, struct.pack(">i", -100))  # prerouting, dstnat
    named = attribute(1, b"probe\0") + attribute(3, b"nat\0")
    return _NEWCHAIN, named + attribute(4 | _NESTED, hook) + attribute(7, b"nat\0")


def _rule(expression: str) -> tuple[int, bytes]:
    """Return a message that adds a rule with one expression. The kernel replies ENOENT if it lacks this expression."""
    element = attribute(1 | _NESTED, attribute(1, expression.encode() + b"\0") + attribute(2 | _NESTED, b""))
    return _NEWRULE, attribute(1, b"probe\0") + attribute(2, b"nat\0") + attribute(4 | _NESTED, element)


def _nft(number: int, kind: int, attributes: bytes) -> bytes:
    return message(kind, _REQUEST | _CREATE, number, struct.pack(">BBH", _INET, 0, 0) + attributes)
