"""The interface of service proxies under test: a proxy runs on nodes, and reports when it has processed all writes."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from harness.errors import UnavailableError
from harness.model.release import Release
from harness.netns import process
from harness.netns.namespace import Namespace

if TYPE_CHECKING:  # this module does not import a control plane
    from harness.control_planes.control_plane import ControlPlane

_NFT = ("nft", "list", "ruleset")
_IPTABLES = (("iptables-save",), ("ip6tables-save",))
_LISTINGS: Mapping[str, Sequence[Sequence[str]]] = {
    "nftables": [_NFT],
    "iptables": _IPTABLES,
    "ipvs": [("ipvsadm", "-Ln"), ("ipset", "list"), *_IPTABLES],
}

_SECONDS = 5  # time limit per tool in seconds


class Proxy(Protocol):
    """One proxy implementation on all nodes of a cluster. Methods raise `UnavailableError`."""

    name: str
    version: str  # version for reports, or "" if it equals the version of the release
    mode: str  # kernel mechanism that the proxy programs: nftables, iptables, ipvs, ebpf, or unknown

    def setup(self, node: str, namespace: Namespace, release: Release) -> None:
        """Start or replace a node's proxy, and wait until it is ready. Raises `StartError`, `UnavailableError`."""

    def stop(self, node: str) -> None:
        """Stop a node's proxy if it is running. The rules remain."""

    def close(self) -> None:
        """Stop all proxies, and remove their files. Idempotent."""

    def synced(self) -> bool:
        """Return whether every running proxy has processed all writes so far. Raises `EndedError`."""

    def explain(self, node: str, namespace: str, service: str) -> str:
        """Return a node's decision about a Service with the reason, if the proxy reports decisions."""

    def decisions(self, node: str) -> str:
        """Return all decisions of a node with their reasons, or "" if the proxy does not report decisions."""

    def evidence(self, node: str) -> dict[str, str]:
        """Return the rules and logs of a node, as a mapping from file name to content."""


@runtime_checkable
class ReportsUnfinishedWork(Protocol):
    """A proxy or control plane that reports why `synced` still returns False."""

    @property
    def lacking(self) -> str:
        """Return the node and the check that failed in the last call of `synced`, or "" if all checks succeeded."""


MakeProxy = Callable[["ControlPlane", Sequence[str]], Proxy]
"""Creates the proxies of a cluster from the cluster's control plane and pod CIDRs."""


def rules_of(node: str, namespace: Namespace, mode: str) -> dict[str, str]:
    """Return the rules of a node by file name, with one file for each tool that lists rules of the mode."""
    commands = _LISTINGS.get(mode, [_NFT, *_IPTABLES])
    return {f"rules-{node}-{command[0]}.txt": _listed(namespace, command) for command in commands}


def _listed(namespace: Namespace, command: Sequence[str]) -> str:
    try:
        ran = process.run(namespace, command, timeout=_SECONDS)
    except UnavailableError:
        return f"{command[0]} is not installed on this machine"
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end within {_SECONDS} s"
    return ran.stdout + ran.stderr
