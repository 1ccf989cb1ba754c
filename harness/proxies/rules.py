"""List the rules of any proxy with the tools of the kernel mechanism. Rules are only evidence and decide no verdict."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from harness.errors import UnavailableError
from harness.netns import programs
from harness.netns.namespace import Namespace

_NFT = ("nft", "list", "ruleset")
_IPTABLES = (("iptables-save",), ("ip6tables-save",))
_LISTINGS: Mapping[str, Sequence[Sequence[str]]] = {
    "nftables": [_NFT],
    "iptables": _IPTABLES,
    "ipvs": [("ipvsadm", "-Ln"), ("ipset", "list"), *_IPTABLES],
}

_SECONDS = 5  # time limit per tool in seconds


def rules_of(node: str, namespace: Namespace, mode: str) -> dict[str, str]:
    """Return the rules of a node by file name, one text per tool. If a tool is missing, the text says so."""
    commands = _LISTINGS.get(mode, [_NFT, *_IPTABLES])
    return {f"rules-{node}-{command[0]}.txt": _listed(namespace, command) for command in commands}


def _listed(namespace: Namespace, command: Sequence[str]) -> str:
    try:
        ran = programs.run(namespace, command, timeout=_SECONDS)
    except UnavailableError:
        return f"{command[0]} is not on this machine"
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end within {_SECONDS} s"
    return ran.stdout + ran.stderr
