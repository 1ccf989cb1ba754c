"""The rules that the proxy loads can be read back from the kernel, and nft prints them."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator

import pytest

from harness.netns.namespace import Namespace
from reference.proxy.changes import Changes, EndpointElement
from reference.proxy.decision import Family
from reference.proxy.netlink import KernelError, NftSocket
from reference.proxy.nft_text import text
from reference.proxy.nftables import STAGING, KernelTable
from reference.proxy.ruleset import NOTHING, PortEntries, Ruleset, ServiceAddress, StickyEndpoints
from reference.proxy.table import Table
from tests.reference.proxy.conftest import read_back

SERVICE = ServiceAddress("10.96.0.1", "TCP", 80)
KEY = socket.inet_aton("10.96.0.1") + b"\x06\0\0\0" + b"\0\x50\0\0"
PODS, OWN = ("10.244.0.0/16",), ("10.244.1.0/24", "10.0.0.2/32")
A, B = ("10.244.1.2", 8080), ("10.244.3.2", 8080)
FAMILIES: tuple[Family, ...] = ("IPv4", "IPv6")


def ruleset(family: Family) -> Ruleset:
    """Return elements of every kind: internal and external lists, with and without affinity, drop, reject, hairpin."""
    if family == "IPv4":
        pods, own, virtual, pod = PODS, OWN, "10.96.0.{}", "10.244.1.{}"
    else:
        pods, own = ("fd00:10:244::/48",), ("fd00:10:244:1::/64", "fd00:10::1/128")
        virtual, pod = "fd00:10:96::{}", "fd00:10:244:1::{}"
    one, two, three = (ServiceAddress(virtual.format(n), p, 80) for n, p in ((1, "TCP"), (2, "UDP"), (3, "SCTP")))
    here, there = ((pod.format(n), 8080) for n in (2, 3))
    four = ServiceAddress(virtual.format(4), "UDP", 80)
    services = {one: (here, there), two: "reject", three: "drop", four: StickyEndpoints((here, there), 93_784)}
    external = {one: (here,), four: StickyEndpoints((here,), 10_800)}
    sources = ("10.0.0.0/8", "192.0.2.7/32") if family == "IPv4" else ("2001:db8::/32", "fd00::7/128")
    return Ruleset(family, pods, own, services, external, frozenset({here[0]}), {one: sources})


@pytest.fixture
def loaded(nft: NftSocket) -> tuple[KernelTable, Table]:
    """A kernel table with one Service that has one endpoint, and the model of this table."""
    table, kernel = Table("IPv4"), KernelTable(nft, "IPv4")
    table.put("web", PortEntries({SERVICE: (A,)}, {}, frozenset()))
    table.forget_changes()
    kernel.load(table.ruleset(PODS, OWN))
    return kernel, table


@pytest.fixture
def nft_list(node: Namespace) -> Iterator[object]:
    """Run the nft binary in the test's netns."""
    binary = shutil.which("nft")
    if binary is None:
        pytest.skip("unavailable: no nft binary")

    def run(*arguments: str, stdin: str = "") -> list[str]:
        with node.entered():
            done = subprocess.run([binary, *arguments], input=stdin, capture_output=True, text=True, check=True)
        return _lines(done.stdout)

    return run


def _lines(text: str) -> list[str]:
    """Return the lines of the text. Each element is on one line, and addresses have no prefix length."""
    joined = " ".join(text.split()).replace("} ", "}\n")
    return sorted(re.sub(r"(\.\d+)/32\b|(:\w+)/128\b", r"\1\2", joined).split("\n"))


@pytest.mark.parametrize("family", FAMILIES)
def test_nft_prints_what_was_loaded_as_our_text(family: Family, nft: NftSocket, nft_list) -> None:  # type: ignore[no-untyped-def]
    wanted = ruleset(family)

    KernelTable(nft, family).load(wanted)

    assert _words(nft_list("list", "ruleset")) == _words(_lines(text(wanted)))
    assert "timeout 1d2h3m4s" in text(wanted)


def test_nft_loads_our_text(nft: NftSocket, nft_list) -> None:  # type: ignore[no-untyped-def]
    """Use IPv4 only. nft 1.0.6 prints the IPv6 key of `affinity` but cannot load it, for lack of registers."""
    wanted = ruleset("IPv4")

    nft_list("-f", "-", stdin=text(wanted))

    assert _words(nft_list("list", "ruleset")) == _words(_lines(text(wanted)))


def _words(lines: list[str]) -> list[list[str]]:
    """Return the words of the text in sorted order, because the kernel lists elements in hash order."""
    return [sorted(line.replace(",", " ").split()) for line in lines]


def test_elements_are_read_back_as_they_were_loaded(nft: NftSocket, loaded: tuple[KernelTable, Table]) -> None:
    assert read_back(nft, "IPv4", "services") == {KEY: b"\x01\0\0\0"}
    assert read_back(nft, "IPv4", "endpoints") == {KEY + bytes(4): socket.inet_aton(A[0]) + b"\x1f\x90\0\0"}
    marks = read_back(nft, "IPv4", "actions")
    assert marks is not None
    assert sorted(marks.values()) == [b"drop-chain", b"lb-1", b"reject-chain"]
    own = read_back(nft, "IPv4", "own")
    assert own is not None
    assert own.keys() == {socket.inet_aton("10.244.1.0"), socket.inet_aton("10.0.0.2")}


def test_changes_create_the_chains_they_need(nft: NftSocket, loaded: tuple[KernelTable, Table]) -> None:
    kernel, table = loaded
    table.put("web", PortEntries({SERVICE: (A, B)}, {SERVICE: (A,)}, frozenset({A[0]})))

    for changes in table.take_changes():
        kernel.apply(changes)

    assert read_back(nft, "IPv4", "services") == {KEY: b"\x02\0\0\0"}
    assert read_back(nft, "IPv4", "external") == {KEY: b"\x01\x40\0\0"}
    assert set(read_back(nft, "IPv4", "actions").values()) == {
        b"drop-chain",
        b"reject-chain",
        b"lb-1",
        b"lb-2",
        b"lb-1-local",
    }  # type: ignore[union-attr]
    assert read_back(nft, "IPv4", "hairpin") == {socket.inet_aton(A[0]) * 2: b""}


def test_source_ranges_can_be_added_changed_and_removed(nft: NftSocket, loaded: tuple[KernelTable, Table]) -> None:
    kernel, table = loaded
    seen = []
    for ranges in (("10.0.0.0/8",), ("192.0.2.7/32", "198.51.100.0/24"), ("10.0.0.0/8",), ()):
        table.put("web", PortEntries({SERVICE: (A,)}, {}, frozenset(), {SERVICE: ranges} if ranges else {}))
        for changes in table.take_changes():
            kernel.apply(changes)
        seen.append(read_back(nft, "IPv4", "ranges"))

    first, second, again, gone = seen
    assert first == again != second
    assert first is not None
    assert [first.keys(), gone] == [{KEY}, {}]


def test_deleted_service_leaves_no_element(nft: NftSocket, loaded: tuple[KernelTable, Table]) -> None:
    kernel, table = loaded
    table.put("web", NOTHING)

    for changes in table.take_changes():
        kernel.apply(changes)

    assert read_back(nft, "IPv4", "services") == read_back(nft, "IPv4", "endpoints") == {}


def test_a_refused_transaction_names_the_object_and_changes_nothing(
    nft: NftSocket, loaded: tuple[KernelTable, Table]
) -> None:
    kernel, _ = loaded
    wrong = Changes(first_delete=[EndpointElement(SERVICE, 7, A)], first_add=[EndpointElement(SERVICE, 1, B)])

    with pytest.raises(KernelError, match="elements of endpoints of IPv4 trafficdist: No such file"):
        kernel.apply(wrong)

    assert len(read_back(nft, "IPv4", "endpoints") or ()) == 1


def test_large_ruleset_is_sent_in_parts_if_the_send_buffer_is_small(
    nft: NftSocket, loaded: tuple[KernelTable, Table]
) -> None:
    kernel, _ = loaded
    nft.limit = 60_000
    services = {ServiceAddress("10.96.0.1", "TCP", port): (A, B) for port in range(1, 2001)}

    kernel.load(Ruleset("IPv4", PODS, OWN, services, {}, frozenset()))

    assert len(read_back(nft, "IPv4", "endpoints") or ()) == 4000
    assert len(read_back(nft, "IPv4", "services") or ()) == 2000
    assert read_back(nft, "IPv4", "services", STAGING) is None


def test_deleting_a_missing_table_is_harmless(nft: NftSocket) -> None:
    kernel = KernelTable(nft, "IPv6")

    kernel.delete()
    kernel.load(ruleset("IPv6"))
    kernel.delete()

    assert read_back(nft, "IPv6", "services") is None


def test_rules_of_another_version_are_replaced(nft: NftSocket, nft_list) -> None:  # type: ignore[no-untyped-def]
    other = """table ip trafficdist {
        map affinity { type ipv4_addr : mark; flags timeout; elements = { 10.0.0.1 timeout 1h : 0x1 }; }
        set endpoints { type ipv4_addr; }
        chain prerouting { type nat hook prerouting priority -50; ip daddr @endpoints drop; }
    }"""
    nft_list("-f", "-", stdin=other)

    KernelTable(nft, "IPv4").load(ruleset("IPv4"))

    assert _words(nft_list("list", "ruleset")) == _words(_lines(text(ruleset("IPv4"))))
