"""Nodes refuse as often as they are asked: by themselves their kernels send one ICMP error a second to each client.

A setting of the network namespace of each node, which goes with it.
"""

from __future__ import annotations

from harness.backends.kind.engine import Shell

_LIMITED = {"/proc/sys/net/ipv4/icmp_ratemask": "0", "/proc/sys/net/ipv6/icmp/ratemask": "255"}
"""Which kinds of messages are limited: none; for IPv6, where an empty set cannot be written, one that is no error."""


def refuse_always(shell: Shell, node: str) -> None:
    """Have a node refuse whenever it is asked to. Raises `UnavailableError`."""
    shell.execute(
        node, "sh", "-ec", "; ".join(f"[ ! -e {file} ] || echo {kinds} > {file}" for file, kinds in _LIMITED.items())
    )
