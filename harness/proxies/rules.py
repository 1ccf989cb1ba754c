"""Lists the rules of any proxy with the tools of its mechanism: for evidence, never for a verdict."""

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

_SECONDS = 5  # per tool


def rules_of(node: str, namespace: Namespace, mode: str) -> dict[str, str]:
    """Return the rules of a node, one text per tool, by file name; the text of a missing tool says so."""
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
