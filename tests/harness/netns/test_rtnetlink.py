from __future__ import annotations

import errno
import socket
import struct

import pytest

from harness.netns import rtnetlink
from harness.netns.namespace import Namespace


def headers(datagram: bytes) -> list[tuple[int, int, int]]:
    """Return type, flags and sequence number of each message."""
    found, offset = [], 0
    while offset < len(datagram):
        length, kind, flags, number, _ = struct.unpack_from("=IHHII", datagram, offset)
        found.append((kind, flags, number))
        offset += length
    return found


def test_messages_are_numbered_and_only_the_last_requests_an_ack() -> None:
    packed = rtnetlink.pack([rtnetlink.up(1), *rtnetlink.address(1, "10.0.0.1"), rtnetlink.remove_link(2)])
    assert headers(packed) == [(16, 0x1, 1), (20, 0x601, 2), (17, 0x5, 3)]


def test_every_message_is_aligned() -> None:
    for name in ("a", "ab", "abc", "abcd", "fifteen-letters"):
        assert len(rtnetlink.rule("IPv4", name, table=1, priority=1).body) % 4 == 0


def test_error_names_the_operation_and_the_kernels_reason(namespace: Namespace) -> None:
    with pytest.raises(rtnetlink.NetlinkError) as caught:
        rtnetlink.execute(namespace, [rtnetlink.up(1), *rtnetlink.address(7, "fd00::1"), rtnetlink.up(1)])
    assert caught.value.number == errno.ENODEV
    assert str(caught.value).startswith("cannot add the address fd00::1 to link 7: No such device")


def test_first_of_several_errors_is_raised_after_the_remaining_operations(namespace: Namespace) -> None:
    with pytest.raises(rtnetlink.NetlinkError, match="cannot set link 8 up"):
        rtnetlink.execute(namespace, [rtnetlink.up(8), rtnetlink.remove_link(9), rtnetlink.up(rtnetlink.LOOPBACK)])
    with namespace.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", 9))  # fails while loopback is down


def test_pair_has_its_names_and_numbers_in_both_netns(namespace: Namespace) -> None:
    with Namespace.create() as other:
        rtnetlink.execute(namespace, [rtnetlink.veth("pod-1", 100, other, peer_name="eth0", peer_index=2)])
        with namespace.entered():
            assert (100, "pod-1") in socket.if_nameindex()
        with other.entered():
            assert (2, "eth0") in socket.if_nameindex()


def test_second_link_of_that_name_is_refused(namespace: Namespace) -> None:
    with Namespace.create() as other:
        twice = [rtnetlink.veth("same", index, other, peer_name=f"eth{index}", peer_index=index) for index in (10, 11)]
        with pytest.raises(rtnetlink.NetlinkError, match="cannot create the veth pair same - eth11: File exists"):
            rtnetlink.execute(namespace, twice)
