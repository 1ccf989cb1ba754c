"""Reads the readiness of a kind cluster's nodes from the API, and runs commands in the nodes' containers."""

from harness.api.client import Api, RefusedError
from harness.backends.containers.engine import ContainerEngine
from harness.errors import InconclusiveError
from harness.model.manifests import has_condition

_LIMITED = {"/proc/sys/net/ipv4/icmp_ratemask": "0", "/proc/sys/net/ipv6/icmp/ratemask": "255"}
"""The ICMP types to rate-limit: none. IPv6 rejects an empty set, so its set has one type that is not an error."""

_FAMILIES = "4:iptables:tcp 6:ip6tables:tcp6"
_SILENCE = """
for each in {families}; do
  family=${{each%%:*}} sockets=${{each##*:}} tool=${{each#*:}} tool=${{tool%:*}}
  [ -e /proc/net/$sockets ] || continue
  suite=$(ip -$family route show default | sed -n '1s/.* via \\([^ ]*\\).*/\\1/p')
  rule="INPUT ! --in-interface lo ${{suite:+! --source $suite}} --protocol tcp --syn --dport {port} --jump DROP"
  if $tool --wait --check $rule 2>/dev/null; then there=yes; else there=no; fi
  [ $there = {unless} ] || $tool --wait {change} $rule
done
"""


def ready_nodes(api: Api) -> set[str]:
    """Return the ready nodes without a taint of the node controller, or no nodes if the API server does not answer."""
    try:
        nodes = api.list("nodes")
    except (InconclusiveError, RefusedError):
        return set()
    held = {
        node["metadata"]["name"]
        for node in nodes
        for taint in node.get("spec", {}).get("taints") or ()
        if taint["key"].startswith("node.kubernetes.io/")
    }
    return {node["metadata"]["name"] for node in nodes if has_condition(node, "Ready")} - held


def lift_icmp_limit(shell: ContainerEngine, node: str) -> None:
    """Let a node send an ICMP error for every refusal. By default, its kernel sends each client one per second."""
    shell.execute(
        node, "sh", "-ec", "; ".join(f"[ ! -e {file} ] || echo {kinds} > {file}" for file, kinds in _LIMITED.items())
    )


def silence_port(shell: ContainerEngine, node: str, port: int, *, silent: bool) -> None:
    """Drop SYNs from other nodes to a TCP port of a node, or accept them again. Idempotent. Raises `UnavailableError`.
    While an API server is replaced, a refused client backs off for up to 60 s, but a client that gets no answer
    retransmits its SYN after a second. Clients on the server's own node are still refused: its kubelet deletes mirror
    pods while it starts static pods, and would wait for each answer.
    """
    unless, change = ("yes", "--insert") if silent else ("no", "--delete")
    shell.execute(node, "sh", "-ec", _SILENCE.format(families=_FAMILIES, port=port, unless=unless, change=change))
