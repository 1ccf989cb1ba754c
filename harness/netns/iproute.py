"""Runs pyroute2 in a netns, for rare operations. pyroute2 is imported on first use, because the import takes 0.1 s."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.errors import HarnessError
from harness.netns.namespace import Namespace


@contextmanager
def routing(namespace: Namespace, what: str) -> Iterator[Any]:
    """Open an `IPRoute` in a netns. Raises `HarnessError` with `what` if the kernel refuses an operation."""
    from pyroute2 import IPRoute, NetlinkError

    try:
        with namespace.entered(), IPRoute() as ip:
            yield ip
    except NetlinkError as error:
        raise HarnessError(f"cannot {what}: {error.args[-1]}") from error


@contextmanager
def tracking(namespace: Namespace, what: str, *, family: int = 0) -> Iterator[Any]:
    """Open a `Conntrack` in a netns, for both families or one family (AF_…). Raises `HarnessError` like `routing`."""
    from pyroute2 import Conntrack, NetlinkError

    try:
        with namespace.entered(), Conntrack(nfgen_family=family) as connections:
            yield connections
    except NetlinkError as error:
        raise HarnessError(f"cannot {what}: {error.args[-1]}") from error


def ports_of(family: int, protocol: int, source: int, destination: int) -> Any:
    """Return a `Conntrack` filter for ports. It omits addresses, because these filters cannot match IPv6 addresses."""
    from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple

    return NFCTAttrTuple(family, proto=protocol, sport=source, dport=destination)
