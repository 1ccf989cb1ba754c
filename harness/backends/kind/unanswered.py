"""Connections of nodes to an API server that is replaced: they get no answer, in place of a refusal.

A client that is refused tries again after 30 to 60 s in the end, and so long do kubelets and proxies miss what the next
API server says. A client without an answer sends its SYN again after 1, 3, 7 and 15 s (TCP), and goes on at once.
The suite's own connections do not come from nodes; they are refused as before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from harness.backends.kind.engine import Shell

_RULE = "INPUT --source {source} --protocol tcp --syn --dport {port} --jump DROP"


class UnansweredPort:
    """A TCP port of a node that answers no SYN of other nodes while it is closed. In the node's own netns."""

    def __init__(self, shell: Shell, node: str, port: int) -> None:
        self._shell = shell
        self._node = node
        self._port = port
        self._closed_to: Sequence[str] = ()

    def close_to(self, addresses: Collection[str]) -> None:
        """Answer none of these IP addresses until `open`. Raises `UnavailableError`."""
        new = sorted(set(addresses) - set(self._closed_to))
        self._change("--insert", new)
        self._closed_to = [*self._closed_to, *new]

    def open(self) -> None:
        """Answer all again. Raises `UnavailableError`."""
        self._change("--delete", self._closed_to)
        self._closed_to = ()

    def _change(self, how: str, addresses: Sequence[str]) -> None:
        commands = [
            f"ip{'6' if ':' in each else ''}tables --wait {how} {_RULE.format(source=each, port=self._port)}"
            for each in addresses
        ]
        if commands:
            self._shell.execute(self._node, "sh", "-ec", "; ".join(commands))
