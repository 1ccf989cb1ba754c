"""Lists the rules of any proxy with the tools of its mechanism: for evidence, never for a verdict."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence

from harness.netns.namespace import Namespace
from harness.netns.process import search_path

_NFT = ("nft", "list", "ruleset")
_IPTABLES = (("iptables-save",), ("ip6tables-save",))
_LISTINGS: Mapping[str, Sequence[Sequence[str]]] = {
    "nftables": [_NFT],
    "iptables": _IPTABLES,
    "ipvs": [("ipvsadm", "-Ln"), ("ipset", "list"), *_IPTABLES],
}

_SECONDS = 5  # for one of them


def rules_of(node: str, namespace: Namespace, mode: str) -> dict[str, str]:
    """Return the rules of a node, as texts by file name, one for each tool; the text of a missing tool says so."""
    commands = _LISTINGS.get(mode, [_NFT, *_IPTABLES])
    return {f"rules-{node}-{command[0]}.txt": _listed(namespace, command) for command in commands}


def _listed(namespace: Namespace, command: Sequence[str]) -> str:
    program = shutil.which(command[0], path=search_path())
    if program is None:
        return f"{command[0]} is not on this machine"
    try:
        with namespace.entered():
            ran = subprocess.run(  # noqa: S603  a lister of rules
                [program, *command[1:]], capture_output=True, text=True, check=False, timeout=_SECONDS
            )
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end within {_SECONDS} s"
    return ran.stdout + ran.stderr
