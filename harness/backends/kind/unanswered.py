"""Connections of nodes to an API server that is replaced: they get no answer, in place of a refusal.

A client that is refused tries again after 30 to 60 s in the end, and so long do kubelets and proxies miss what the next
API server says. A client without an answer sends its SYN again after a second or more (TCP), and goes on at once.

This holds for every address of a node, and for clients on the server's own node: on a network with two IP families,
clients try the other one if the first does not answer at once. The suite's own connections come from the gateway of the
engine's network, or from localhost; they are refused as before.
"""

from __future__ import annotations

from harness.backends.kind.engine import Shell

_FROM_OTHERS = '! --in-interface lo ${suite:+! --source "$suite"}'
_FROM_HERE = "--in-interface lo ! --source {localhost}"
_RULE = "INPUT {source} --protocol tcp --syn --dport {port} --jump DROP"
_SUITE = "suite=$(ip -{family} route show default | sed -n '1s/.* via \\([^ ]*\\).*/\\1/p')"
_INSERT = "{tool} --wait --insert {rule}"
_DELETE = "if {tool} --wait --check {rule} 2>/dev/null; then {tool} --wait --delete {rule}; fi"
_FAMILIES = (("4", "iptables", "tcp", "127.0.0.0/8"), ("6", "ip6tables", "tcp6", "::1"))


class UnansweredPort:
    """A TCP port of a node that answers no SYN of nodes while it is closed. In the node's own netns."""

    def __init__(self, shell: Shell, node: str, port: int) -> None:
        self._shell = shell
        self._node = node
        self._port = port
        self._is_closed = False

    def close(self) -> None:
        """Answer no node until `open`. Idempotent. Raises `UnavailableError`."""
        if not self._is_closed:
            self._is_closed = True
            self._change(_INSERT)

    def open(self) -> None:
        """Answer all again. Idempotent. Raises `UnavailableError`."""
        if self._is_closed:
            self._change(_DELETE)
            self._is_closed = False

    def _change(self, command: str) -> None:
        for family, tool, sockets, localhost in _FAMILIES:
            sources = (_FROM_OTHERS, _FROM_HERE.format(localhost=localhost))
            rules = [_RULE.format(source=source, port=self._port) for source in sources]
            changes = "; ".join(command.format(tool=tool, rule=rule) for rule in rules)
            script = f"if [ -e /proc/net/{sockets} ]; then {_SUITE.format(family=family)}; {changes}; fi"
            self._shell.execute(self._node, "sh", "-ec", script)
