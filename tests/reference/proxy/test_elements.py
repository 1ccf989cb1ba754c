"""Set elements in the format of a kernel dump, and in the format for adding them again."""

from __future__ import annotations

import struct

from reference.proxy import uapi
from reference.proxy.elements import read_clients, read_elements
from reference.proxy.netlink import attribute, attributes, nested


def _dumped(*, timeout: int, expiration: int, port: int = 0) -> bytes:
    """Return one affinity entry of an IPv4 Service as in a dump. Times are in milliseconds."""
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
    """The kernel rejects an element whose expiration is later than its timeout (ERANGE)."""
    for timeout, expiration, again in ((2_000, 9_000, 9_000), (9_000, 2_000, 9_000)):
        dumped = [_dumped(timeout=timeout, expiration=expiration)]
        (added,) = read_clients(read_elements(iter([dumped, dumped]).__next__), "IPv4")
        (outer,) = dict(attributes(added)).values()
        parts = {kind: bytes(value) for kind, value in attributes(outer)}
        found = [parts[each] for each in (uapi.NFTA_SET_ELEM_TIMEOUT, uapi.NFTA_SET_ELEM_EXPIRATION)]
        assert found == [struct.pack(">Q", each) for each in (again, expiration)]


def test_elements_missed_by_one_pass_are_read_by_the_next() -> None:
    """A single dump can be incomplete.

    Of 40 dumps after loading 4,000 elements, one had 4,000 elements but only 3,072 distinct ones.
    """
    one, two, three = ([_dumped(timeout=9_000, expiration=9_000, port=port)] for port in (1, 2, 3))
    passes = iter([[*one, *one, *two], [*one, *three, *three], [*one, *two, *three], []])

    clients = read_clients(read_elements(passes.__next__), "IPv4")

    assert len(clients) == 3
    assert list(passes) == [[]]
