"""Drop connection attempts of nodes to an API server that is being replaced, instead of refusing them.

A refused client backs off for up to 30 to 60 s, so kubelets and proxies would reconnect late. A client without an
answer repeats its SYN after a second or more (TCP), and continues at once.

The rule covers every address of a node: on dual-stack networks clients try the other family if the first is silent at
once. The suite's own connections come from the gateway of the engine's network or from the node itself, and are refused
as before. So are clients on the server's own node: its kubelet deletes mirror pods while it starts static pods, and
would wait for each answer.
"""

from __future__ import annotations

from harness.backends.containers.engine import ContainerEngine

_RULE = 'INPUT ! --in-interface lo ${{suite:+! --source "$suite"}} --protocol tcp --syn --dport {port} --jump DROP'
_SUITE = "suite=$(ip -{family} route show default | sed -n '1s/.* via \\([^ ]*\\).*/\\1/p')"
_INSERT = "{tool} --wait --insert {rule}"
_DELETE = "if {tool} --wait --check {rule} 2>/dev/null; then {tool} --wait --delete {rule}; fi"
_FAMILIES = (("4", "iptables", "tcp"), ("6", "ip6tables", "tcp6"))


class SilentPort:
    """A TCP port of a node that drops SYNs of other nodes while it is closed, by a rule in the node's netns."""

    def __init__(self, shell: ContainerEngine, node: str, port: int) -> None:
        self._shell = shell
        self._node = node
        self._port = port
        self._is_closed = False

    def close(self) -> None:
        """Drop SYNs until `open`. Idempotent. Raises `UnavailableError`."""
        if not self._is_closed:
            self._is_closed = True
            self._change(_INSERT)

    def open(self) -> None:
        """Accept all again. Idempotent. Raises `UnavailableError`."""
        if self._is_closed:
            self._change(_DELETE)
            self._is_closed = False

    def _change(self, command: str) -> None:
        rule = _RULE.format(port=self._port)
        for family, tool, sockets in _FAMILIES:
            change = f"{_SUITE.format(family=family)}; {command.format(tool=tool, rule=rule)}"
            self._shell.execute(self._node, "sh", "-ec", f"if [ -e /proc/net/{sockets} ]; then {change}; fi")
