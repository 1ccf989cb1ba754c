"""Elements as the kernel tells them, and as they are added again."""

from __future__ import annotations

import struct

from reference.proxy import uapi
from reference.proxy.elements import read_clients
from reference.proxy.netlink import attribute, attributes, nested


def _dumped(*, timeout: int, expiration: int) -> bytes:
    """One client of an IPv4 Service that is remembered, in milliseconds."""
    key, data = (attribute(uapi.NFTA_DATA_VALUE, bytes(length)) for length in (16, 4))
    element = nested(
        1,
        nested(uapi.NFTA_SET_ELEM_KEY, key),
        nested(uapi.NFTA_SET_ELEM_DATA, data),
        attribute(uapi.NFTA_SET_ELEM_TIMEOUT, struct.pack(">Q", timeout)),
        attribute(uapi.NFTA_SET_ELEM_EXPIRATION, struct.pack(">Q", expiration)),
    )
    return bytes(4) + nested(uapi.NFTA_SET_ELEM_LIST_ELEMENTS, element)


def test_client_whose_time_was_made_longer_is_added_with_a_timeout_that_is_as_long() -> None:
    """The kernel refuses an element that expires after its timeout (ERANGE)."""
    for timeout, expiration, again in ((2_000, 9_000, 9_000), (9_000, 2_000, 9_000)):
        (added,) = read_clients([_dumped(timeout=timeout, expiration=expiration)], "IPv4")
        (outer,) = dict(attributes(added)).values()
        parts = {kind: bytes(value) for kind, value in attributes(outer)}
        found = [parts[each] for each in (uapi.NFTA_SET_ELEM_TIMEOUT, uapi.NFTA_SET_ELEM_EXPIRATION)]
        assert found == [struct.pack(">Q", each) for each in (again, expiration)]
