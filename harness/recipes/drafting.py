"""Makes the recipe of a proxy from a few answers: a file with comments, in which its author goes on.

Each answer is validated as the recipe will be, so that what was accepted is a recipe that can be read.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from harness.errors import UsageError
from harness.netns.isolation import OWN
from harness.recipes.recipe import OF_PROXY, QUIET_SECONDS, READY_SECONDS, parse_recipe

_LEAST = {"name": "any", "command": ["any"], "ready": [{"http": {"port": 1}}]}
_CHECKS = "http PORT [PATH], metrics PORT NAME [NAME]…, or log PATTERN"
_UNTOLD_QUIET_SECONDS = 0.5  # for a proxy that does not tell when it has worked on everything

T = TypeVar("T")

_TEXT = """\
# How {name} is run on each node; docs/proxies.md of trafficdist has all keys.
#   trafficdist proxy check {file}    # seconds: how far does it come?
#   trafficdist run --proxy {file}    # minutes: all requirements

name: {name}
version: {version}  # for reports

# Program and arguments, without a shell. Placeholders, here, in variables and in files ({{{{ and }}}} are braces):
{placeholders}
command:
{command}
# environment: {{TZ: UTC}}
# files:  # texts that are written into {{folder}} first
#   config.yaml: |
#     node: {{node}}

# Several programs a node: a list, each with a name and its own keys from command to synced, in place of those here.
# programs:
#   - {{name: agent, command: [mine-agent], ready: [{{log: listening}}]}}

# Once a cluster, before anything runs on nodes: objects that are created, in manifests or files beside this one, and
# programs on no node, such as a controller; nodes reach them at {{address}}.
# objects: [definitions.yaml, {{apiVersion: v1, kind: ConfigMap, metadata: {{name: mine}}}}]
# cluster_programs:
#   - {{name: controller, command: [mine-controller, "{{kubeconfig}}"], ready: [{{log: listening}}]}}

# The values of --mode, the usual one first.
modes: {modes}

# It is ready when all of these hold, each one of
#   http: {{port: 10256, path: /healthz, code: 200, contains: a text}}    on loopback of the node
#   metrics: {{port: 10249, path: /metrics, zero: [names], not_after: {{name: name}}}}
#   log: a regular expression, for a line that the program has written since it was started
ready:
{ready}
ready_seconds: {ready_seconds:g}

# It has worked on everything that was written when these hold too, for so many seconds without a break.
synced:{synced}
quiet_seconds: {quiet_seconds:g}

# Features that are claimed beside those of the core, and those of the core that are not (`trafficdist list`).
supported_features: {supported}
exempt_features: {exempt}

# What counts where a KEP and released Kubernetes contradict each other: released, or kep.
follows: released

# Seconds within which it promises to take up every change: later is a failure. Without it late is not wrong.
# converges_within: 5

# What every Service gets, for a proxy that must be asked: annotations, labels, fields of the spec.
# services: {{spec: {{trafficDistribution: PreferClose}}}}

# What a node has of its own beside its network: {isolation}.
# isolation: [run, hostname]

# What attaches pods, for a data plane that owns their interfaces: these commands, or {{cni: FILE}} (docs/proxies.md).
# pods: {{attach: [mine-cni, add, "{{pod_netns}}"], detach: [mine-cni, delete, "{{pod_netns}}"]}}

# How it is brought to a kind cluster (--backend kind): images of the engine, manifests, a command (docs/proxies.md).
# kind: {{images: ["mine:1"], objects: [daemonset.yaml], install: [helm, install, mine, ./chart]}}

# What the machine must have; docs/proxies.md has the names, and `trafficdist doctor --proxy {file}` tries each.
# requires: [root, bpf]

# How it tells why a node decides so: lines of its log, or a command. Without it, lines with namespace/name.
# explain: {{command: [mine-maps, dump, "--ip={{cluster_ip}}"]}}

# What packets follow: the proxy itself (packets), or rules that a small program writes from its decisions (decisions).
# judges: packets
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """The answers, as values of a recipe. `synced` may be empty."""

    name: str
    version: str
    command: list[str]
    mode: str
    ready: dict[str, Any]
    synced: dict[str, Any]
    features: list[str]
    zone_hints: bool

    def as_text(self, file: str) -> str:
        """Return the recipe as YAML, to be written to a file of this name."""
        meanings = OF_PROXY.placeholders
        widest = max(map(len, meanings))
        return _TEXT.format(
            file=shlex.quote(file),
            name=_scalar(self.name),
            version=_scalar(self.version),
            placeholders="\n".join(f"#   {f'{{{name}}}'.ljust(widest + 2)}  {what}" for name, what in meanings.items()),
            command="".join(f"  - {_scalar(part)}\n" for part in self.command),
            modes=_scalar([self.mode]),
            ready=_item(self.ready),
            ready_seconds=READY_SECONDS,
            synced=f"\n{_item(self.synced)}" if self.synced else " []",
            quiet_seconds=QUIET_SECONDS if self.synced else _UNTOLD_QUIET_SECONDS,
            supported=_scalar(self.features),
            exempt=_scalar([] if self.zone_hints else ["ZoneHints"]),
            isolation=", ".join(OWN),
        )


def read_answer(key: str, answer: str) -> Any:
    """Return the value of an answer, by the field of `Draft`. Raises `UsageError` that says what is allowed."""
    if not answer.isprintable():
        raise UsageError(f"{answer[:100]!a}: want letters that can be printed")
    return _READERS[key](answer)


def _valid(key: str, value: T) -> T:
    parse_recipe({**_LEAST, key: value}, OF_PROXY)
    return value


def _command(answer: str) -> list[str]:
    try:
        parts = shlex.split(answer)
    except ValueError as error:
        raise UsageError(f"{answer[:100]!r}: {str(error).lower()}") from None
    if not parts:
        raise UsageError("want a program and its arguments")
    return _valid("command", parts)


def _mode(answer: str) -> str:
    if not answer:
        raise UsageError("want a word, such as nftables, iptables, ipvs or ebpf")
    return _valid("modes", [answer])[0]


def _check(answer: str) -> dict[str, Any]:
    kind, _, rest = answer.strip().partition(" ")
    rest = rest.strip()
    words = rest.split()
    made: dict[str, Any] = {}
    if kind == "log" and rest:
        made = {"log": rest}
    elif kind == "http" and words and len(words) <= 2:
        made = {"http": {"port": _port(words[0]), **({"path": words[1]} if words[1:] else {})}}
    elif kind == "metrics" and len(words) >= 2:
        made = {"metrics": {"port": _port(words[0]), "zero": words[1:]}}
    if not made:
        raise UsageError(f"{answer[:100]!r} is no check: want {_CHECKS}")
    return _valid("ready", [made])[0]


def _port(word: str) -> int:
    if not (word.isascii() and word.isdigit() and 0 < int(word[:9]) < 65536):
        raise UsageError(f"{word[:100]!r} is no port: want a number from 1 to 65535")
    return int(word)


def _features(answer: str) -> list[str]:
    return _valid("supported_features", [part.strip() for part in answer.split(",") if part.strip()])


def _yes(answer: str) -> bool:
    if answer not in ("yes", "no"):
        raise UsageError(f"{answer[:100]!r}: want yes or no")
    return answer == "yes"


_READERS: Mapping[str, Callable[[str], Any]] = {
    "name": partial(_valid, "name"),
    "version": partial(_valid, "version"),
    "command": _command,
    "mode": _mode,
    "ready": _check,
    "synced": lambda answer: _check(answer) if answer.strip() else {},
    "features": _features,
    "zone_hints": _yes,
}


def _scalar(value: Any) -> str:
    """Return a value as JSON, which is YAML too."""
    return json.dumps(value, ensure_ascii=False)


def _item(check: Mapping[str, Any]) -> str:
    return "\n".join(f"  - {kind}: {_scalar(given)}" for kind, given in check.items())
