"""Validation of IP addresses, CIDRs and port numbers in API objects."""

import functools
import ipaddress
from typing import Any

from reference.apiserver.kinds import errors
from reference.apiserver.kinds.errors import FieldError

PROTOCOLS = ("SCTP", "TCP", "UDP")

IP = ipaddress.IPv4Address | ipaddress.IPv6Address

_EXAMPLES = "(e.g. 10.9.8.7 or 2001:db8::ffff)"
_CIDR_EXAMPLES = "(e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LONGEST = 64  # the maximum length of an address or prefix; longer strings do not reach the caches


def parse(text: str) -> IP | None:
    """Parse an address. Return None for invalid, scoped (`%eth0`) and IPv4-mapped addresses, as kube-apiserver does."""
    return _parse(text) if len(text) <= _LONGEST else None


@functools.lru_cache(maxsize=65536)
def _parse(text: str) -> IP | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and (address.scope_id or address.ipv4_mapped):
        return None
    return address


def family_of(text: str) -> str | None:
    """Return "IPv4" or "IPv6", or None for an invalid address."""
    address = parse(text)
    return None if address is None else f"IPv{address.version}"


def validate_ip(text: str, path: str) -> list[FieldError]:
    return [] if parse(text) else [errors.invalid(path, text, f"must be a valid IP address, {_EXAMPLES}")]


def validate_cidr(text: str, path: str) -> list[FieldError]:
    """Validate a CIDR of either IP family. As in released Kubernetes, host bits may be set."""
    try:
        valid = len(text) <= _LONGEST and "/" in text and bool(ipaddress.ip_interface(text))
    except ValueError:
        valid = False
    return [] if valid else [errors.invalid(path, text, f"must be a valid CIDR value, {_CIDR_EXAMPLES}")]


def validate_reachable(text: str, path: str) -> list[FieldError]:
    """Return errors for an address that no endpoint may have: invalid, unspecified, loopback or link-local."""
    return [errors.invalid(path, text, said) for said in _unreachable(text[: _LONGEST + 1])]


@functools.lru_cache(maxsize=65536)
def _unreachable(text: str) -> tuple[str, ...]:
    address = parse(text)
    if address is None:
        return ("must be a valid IP address",)
    multicast = ipaddress.ip_network("224.0.0.0/24" if address.version == 4 else "ff02::/16")
    complaints = (
        (address.is_unspecified, "may not be unspecified (0.0.0.0 or ::)"),
        (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (address.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (address in multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    )
    return tuple(said for wrong, said in complaints if wrong)


def validate_port(number: Any, path: str) -> list[FieldError]:
    if isinstance(number, int) and 1 <= number <= 65535:
        return []
    return [errors.invalid(path, number, "must be between 1 and 65535, inclusive")]
