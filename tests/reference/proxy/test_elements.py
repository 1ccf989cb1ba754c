"""Set elements in the kernel's dump format, and in the format for adding the elements again."""

from __future__ import annotations

import struct

from reference.proxy import uapi
from reference.proxy.elements import read_clients, read_elements
from reference.proxy.netlink import attribute, attributes, nested


def _dumped(*, timeout: int, expiration: int, port: int = 0) -> bytes:
    """Return one affinity entry of an IPv4 Service as dumped; times are in milliseconds."""
    key, data = (attribute(uapi.NFTA_DATA_VALUE, value) for value in (struct.pack(">14xH", port), bytes(4)))
    element = nested(
        1,
        nested(uapi.NFTA_SET_ELEM_KEY, key),
        nested(uapi.NFTA_SET_ELEM_DATA, data),
        attribute(uapi.NFTA_SET_ELEM_TIMEOUT, struct.pack(">Q", timeout)),
        attribute(uapi.NFTA_SET_ELEM_EXPIRATION, struct.pack(">Q", expiration)),
    )
    return bytes(4) + nested(uapi.NFTA_SET_ELEM_LIST_ELEMENTS, element)


def test_client_with_an_extended_time_is_added_with_the_longer_timeout() -> None:
    """The kernel rejects an element that expires after its timeout (ERANGE)."""
    for timeout, expiration, again in ((2_000, 9_000, 9_000), (9_000, 2_000, 9_000)):
        dumped = [_dumped(timeout=timeout, expiration=expiration)]
        (added,) = read_clients(read_elements(iter([dumped, dumped]).__next__), "IPv4")
        (outer,) = dict(attributes(added)).values()
        parts = {kind: bytes(value) for kind, value in attributes(outer)}
        found = [parts[each] for each in (uapi.NFTA_SET_ELEM_TIMEOUT, uapi.NFTA_SET_ELEM_EXPIRATION)]
        assert found == [struct.pack(">Q", each) for each in (again, expiration)]


def test_elements_missed_by_one_pass_are_read_by_the_next() -> None:
    """1 of 40 reads after a load of 4,000 elements returned 4,000 elements, of which only 3,072 were distinct."""
    one, two, three = ([_dumped(timeout=9_000, expiration=9_000, port=port)] for port in (1, 2, 3))
    passes = iter([[*one, *one, *two], [*one, *three, *three], [*one, *two, *three], []])

    clients = read_clients(read_elements(passes.__next__), "IPv4")

    assert len(clients) == 3
    assert list(passes) == [[]]
