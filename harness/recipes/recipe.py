"""Reads a recipe, a YAML file that says how to run a proxy or a DNS server, and validates it before anything starts.

Each error names the file and the key. Placeholders in braces, in a command, an environment variable or a file, are
filled in for each node, or for the pod of the DNS server.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from harness.errors import UsageError
from harness.recipes.checks import Check, HttpCheck, LogCheck, MetricsCheck

READY_SECONDS = 20.0
QUIET_SECONDS = 0.1

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_KEYS = (
    "name", "version", "command", "environment", "files", "ready", "ready_seconds", "synced", "quiet_seconds",
    "converges_within", "supported_features", "exempt_features",
)  # fmt: skip
_PLACEHOLDERS = {
    "kubeconfig": "a file that leads to the API server",
    "server": "the URL of the API server",
    "netns": "a path of the netns that it runs in, for nsenter --net=PATH",
    "service_cidrs": "the CIDRs of cluster IPs, with commas",
    "log_file": "the log: stdout and stderr go there too",
    "folder": "a folder of its own",
}
_CHECKS: Mapping[str, tuple[str, ...]] = {
    "http": ("port", "path", "code", "contains"),
    "metrics": ("port", "path", "zero", "not_after"),
    "log": (),
}

_WORDS = {str: "a text", int: "a whole number"}

T = TypeVar("T", str, int)


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that a recipe may describe: its name, and the keys and placeholders that it has beside all others'."""

    name: str
    own_keys: tuple[str, ...]
    own_placeholders: Mapping[str, str]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its recipes."""
        return (*_KEYS, *self.own_keys)

    @property
    def placeholders(self) -> Mapping[str, str]:
        """The placeholders of its recipes, with their meanings."""
        return {**self.own_placeholders, **_PLACEHOLDERS}


OF_PROXY = Kind(
    "proxy",
    ("modes", "follows"),
    {
        "node": "the name of the node",
        "node_ip": "the node's first address",
        "cluster_cidrs": "the CIDRs of all pods, with commas",
        "mode": "the mode that was asked for",
    },
)
OF_DNS = Kind(
    "DNS",
    (),
    {"pod_ips": "the addresses of its pod, with commas", "zone": "the domain of the cluster, without a final dot"},
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A proxy or a DNS server that is a program. `files` are texts by name, written into its folder."""

    name: str
    command: tuple[str, ...]
    ready: tuple[Check, ...]
    synced: tuple[Check, ...] = ()
    version: str = ""
    modes: tuple[str, ...] = ("unknown",)
    environment: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    ready_seconds: float = READY_SECONDS
    quiet_seconds: float = QUIET_SECONDS
    supported_features: tuple[str, ...] = ()
    exempt_features: tuple[str, ...] = ()
    follows: str = "released"
    converges_within: float = 0.0


def read_recipe(path: str, kind: Kind) -> Recipe:
    """Read the recipe in a file. Raises `UsageError` with the file, the key and the allowed values."""
    what = f"{kind.name} file {path}"
    try:
        loaded = yaml.safe_load(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{what}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{what}: is not YAML: {' '.join(str(error).split())}") from None
    try:
        return parse_recipe(loaded, kind)
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None


def parse_recipe(loaded: Any, kind: Kind) -> Recipe:
    """Parse the recipe in a YAML value. Raises `UsageError` with the key and the allowed values."""
    if not isinstance(loaded, dict):
        raise UsageError(f"want a mapping of keys to values, not {type(loaded).__name__}")
    _refuse_unknown(loaded, kind.keys, "")
    for key in ("name", "command", "ready"):
        if not loaded.get(key):
            raise UsageError(f"key {key} is missing")
    follows = _text(loaded.get("follows", "released"), "follows")
    if follows not in ("kep", "released"):
        raise UsageError(f"key follows: {follows!r}; allowed: kep, released")
    return Recipe(
        name=_text(loaded["name"], "name"),
        version=_text(loaded.get("version", ""), "version"),
        command=_templates(loaded["command"], "command", kind),
        modes=_texts(loaded.get("modes", ["unknown"]), "modes"),
        environment=_templates_by_name(loaded.get("environment", {}), "environment", kind),
        files=_files(loaded.get("files", {}), kind),
        ready=_checks(loaded["ready"], "ready"),
        ready_seconds=_seconds(loaded.get("ready_seconds", READY_SECONDS), "ready_seconds"),
        synced=_checks(loaded.get("synced", []), "synced"),
        quiet_seconds=_seconds(loaded.get("quiet_seconds", QUIET_SECONDS), "quiet_seconds"),
        supported_features=_texts(loaded.get("supported_features", []), "supported_features"),
        exempt_features=_texts(loaded.get("exempt_features", []), "exempt_features"),
        follows=follows,
        converges_within=_seconds(loaded.get("converges_within", 0), "converges_within"),
    )


def fill(template: str, values: Mapping[str, str]) -> str:
    """Fill in the placeholders of a template; {{ and }} stand for braces."""

    def value(found: re.Match[str]) -> str:
        return found[0][0] if found[1] is None else values[found[1]]

    return _PLACEHOLDER.sub(value, template)


def _refuse_unknown(given: Mapping[Any, Any], allowed: tuple[str, ...], where: str) -> None:
    for key in given:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UsageError(f"{where}unknown key {key!r}; {hint}allowed: {', '.join(allowed)}")


def _text(value: Any, key: str) -> str:
    if isinstance(value, (dict, list)) or value is None:
        raise UsageError(f"key {key}: want one text, not {value!r}")
    return str(value)


def _texts(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or any(isinstance(each, (dict, list)) for each in value):
        raise UsageError(f"key {key}: want a list of texts, not {value!r}")
    return tuple(str(each) for each in value)


def _templates(value: Any, key: str, kind: Kind) -> tuple[str, ...]:
    return tuple(_template(each, key, kind) for each in _texts(value, key))


def _template(text: str, key: str, kind: Kind) -> str:
    for found in _PLACEHOLDER.finditer(text):
        if found[1] is not None and found[1] not in kind.placeholders:
            allowed = ", ".join(f"{{{name}}}" for name in kind.placeholders)
            raise UsageError(f"key {key}: unknown placeholder {{{found[1]}}}; allowed: {allowed}; {{{{ for a brace")
    return text


def _mapping(value: Any, key: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise UsageError(f"key {key}: want a mapping of names to texts, not {value!r}")
    return tuple((str(name), _text(text, f"{key}.{name}")) for name, text in value.items())


def _templates_by_name(value: Any, key: str, kind: Kind) -> tuple[tuple[str, str], ...]:
    return tuple((name, _template(text, f"{key}.{name}", kind)) for name, text in _mapping(value, key))


def _files(value: Any, kind: Kind) -> tuple[tuple[str, str], ...]:
    named = _templates_by_name(value, "files", kind)
    for name, _ in named:
        if "/" in name or name in (".", ".."):
            raise UsageError(f"key files: {name!r} is not a plain file name")
    return named


def _seconds(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 600:
        raise UsageError(f"key {key}: want seconds from 0 to 600, not {value!r}")
    return float(value)


def _checks(value: Any, key: str) -> tuple[Check, ...]:
    if not isinstance(value, list):
        raise UsageError(f"key {key}: want a list of checks, each one of {', '.join(_CHECKS)}")
    return tuple(_check(each, f"key {key}[{number}]: ") for number, each in enumerate(value))


def _check(value: Any, where: str) -> Check:
    if not isinstance(value, dict) or len(value) != 1:
        raise UsageError(f"{where}want one check, {' or '.join(_CHECKS)}, with its values")
    _refuse_unknown(value, tuple(_CHECKS), where)
    ((kind, given),) = value.items()
    if kind == "log":
        return LogCheck(_pattern(given, where))
    if not isinstance(given, dict):
        raise UsageError(f"{where}{kind}: want {', '.join(_CHECKS[kind])}, not {given!r}")
    _refuse_unknown(given, _CHECKS[kind], f"{where}{kind}: ")
    if kind == "http":
        return HttpCheck(
            port=_port(given, where),
            path=_field(given, "path", "/healthz", str, where),
            code=_field(given, "code", 200, int, where),
            contains=_field(given, "contains", "", str, where),
        )
    return MetricsCheck(
        port=_port(given, where),
        path=_field(given, "path", "/metrics", str, where),
        zero=_texts(given.get("zero", []), f"{where}zero".removeprefix("key ")),
        not_after=_mapping(given.get("not_after", {}), f"{where}not_after".removeprefix("key ")),
    )


def _field(given: Mapping[str, Any], key: str, default: T, kind: type[T], where: str) -> T:
    value = given.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UsageError(f"{where}{key}: want {_WORDS[kind]}, not {value!r}")
    return value


def _port(given: Mapping[str, Any], where: str) -> int:
    port = _field(given, "port", 0, int, where)
    if not 0 < port < 65536:
        raise UsageError(f"{where}port: want a number from 1 to 65535")
    return port


def _pattern(value: Any, where: str) -> str:
    try:
        re.compile(_text(value, "log"))
    except re.error as error:
        raise UsageError(f"{where}log: {value!r} is not a regular expression: {error}") from None
    return str(value)
