"""The nodes of a kind cluster: their readiness, and changes and looks into them by commands in their containers."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from harness.api.client import Api, RefusedError
from harness.backends.containers.engine import ContainerEngine
from harness.backends.kind.checks import INSTANCES_REMEDY
from harness.errors import InconclusiveError, UnavailableError
from harness.model.manifests import has_condition

_LIMITED = {"/proc/sys/net/ipv4/icmp_ratemask": "0", "/proc/sys/net/ipv6/icmp/ratemask": "255"}
"""The ICMP types to limit: no type for IPv4, and for IPv6, which rejects an empty set, a type that is not an error."""

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

_LIMIT = "too many open files"
_LOOK_SECONDS = 10.0
_LOOK = (  # prints the path of a recent log with the error, /var/log/pods/POD/CONTAINER/0.log, or a line of the journal
    f"find /var/log/pods -name '*.log' -mmin -10 -exec grep -lis '{_LIMIT}' {{}} + | head -1; "
    f"journalctl --quiet --unit kubelet --unit containerd --since -10min --output cat | grep -im1 '{_LIMIT}'; true"
)


def ready_nodes(api: Api) -> set[str]:
    """Return the names of ready nodes without taints of the node controller; none while the API server is away."""
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
    """Lift the rate limit of a node's ICMP errors, so that it refuses every connection. Raises `UnavailableError`.

    By default its kernel sends one ICMP error per second to each client. The setting ends with the node's netns.
    """
    shell.execute(
        node, "sh", "-ec", "; ".join(f"[ ! -e {file} ] || echo {kinds} > {file}" for file, kinds in _LIMITED.items())
    )


def silence_port(shell: ContainerEngine, node: str, port: int, *, silent: bool) -> None:
    """Drop SYNs of other nodes to a TCP port of a node, or accept them again. Idempotent. Raises `UnavailableError`.

    While an API server is replaced, a refused client backs off for up to 30 to 60 s, so kubelets and proxies would
    reconnect late. A client without an answer repeats its SYN after a second or more (TCP), and continues at once.

    The rule covers every address of a node: on dual-stack networks clients try the other family if the first is silent
    at once. The suite's own connections come from the gateway of the engine's network or from the node itself, and are
    refused as before. So are clients on the server's own node: its kubelet deletes mirror pods while it starts static
    pods, and would wait for each answer.
    """
    unless, change = ("yes", "--insert") if silent else ("no", "--delete")
    shell.execute(node, "sh", "-ec", _SILENCE.format(families=_FAMILIES, port=port, unless=unless, change=change))


@contextlib.contextmanager
def naming_exhausted_limit(shell: ContainerEngine, nodes: Collection[str]) -> Iterator[None]:
    """Add to errors of the block that the logs of these nodes name an exhausted limit of the machine.

    Kind nodes share the limits of one kernel. When the last inotify instance is taken, for example by a second cluster,
    each new kube-proxy crashes again and again, and only a timeout would be reported.
    """
    try:
        yield
    except (InconclusiveError, UnavailableError) as error:
        for node in sorted(nodes):
            with contextlib.suppress(UnavailableError):  # the node does not answer
                if found := shell.execute(node, "sh", "-c", _LOOK, seconds=_LOOK_SECONDS).strip():
                    path = found.splitlines()[0].split("/")
                    who = path[5] if len(path) == 7 else "a service"
                    says = f"{who} of node {node} says {_LIMIT!r}: inotify instances have run out; {INSTANCES_REMEDY}"
                    break
        else:
            raise
        raise type(error)(f"{error}\nPossible cause: {says}") from error
