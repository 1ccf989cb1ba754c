"""Reads a recipe, a YAML file that says how to run a proxy or a DNS server, and validates it before anything starts.

Each error names the file and the key. Placeholders in braces, in a command, an environment variable or a file, are
filled in for each node, or for the pod of the DNS server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.checks.program_requirements import REQUIREMENTS
from harness.errors import UsageError
from harness.model import strict_yaml
from harness.model.files import shown
from harness.model.judged import JUDGES, PACKETS
from harness.netns.isolation import OWN
from harness.recipes import values
from harness.recipes.explaining import OF_SERVICE, USUAL, ByCommand, ByLog, Explain
from harness.recipes.filling import fill, literal
from harness.recipes.installation import Installation, parse_installation
from harness.recipes.objects import defines_kinds, parse_objects
from harness.recipes.pods import OF_POD, PodCommands, by_cni
from harness.recipes.readiness import Check, HttpCheck, LogCheck, MetricsCheck

CRDS = "crds"
"""What it requires of the API server: to serve the kinds of CustomResourceDefinitions, such as its programs create."""

READY_SECONDS = 20.0
QUIET_SECONDS = 0.1

_KEYS = (
    "name", "version", "programs", "quiet_seconds", "converges_within", "supported_features", "exempt_features",
    "requires", "isolation",
)  # fmt: skip
_OF_PROGRAM = ("command", "environment", "files", "ready", "ready_seconds", "synced")
_OF_EMBEDDED = ("quiet_seconds", "requires", "isolation", "explain", "objects", "cluster_programs", "pods")
"""Keys that say nothing without programs that the suite starts itself."""
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

_OF_REQUIREMENTS = ("clusterIP", "clusterIPs", "externalName", "ports", "selector", "type")
"""Fields of a Service's spec that make it the one that a requirement is about."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that a recipe may describe: its name, and the keys and placeholders that it has beside all others'."""

    name: str
    own_keys: tuple[str, ...]
    own_placeholders: Mapping[str, str]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its recipes."""
        return (*_KEYS, *_OF_PROGRAM, *self.own_keys)

    @property
    def placeholders(self) -> Mapping[str, str]:
        """The placeholders of its recipes, with their meanings."""
        return {**self.own_placeholders, **_PLACEHOLDERS}


OF_PROXY = Kind(
    "proxy",
    ("modes", "judges", "follows", "explain", "services", "objects", "cluster_programs", "pods", "kind"),
    {
        "node": "the name of the node",
        "node_ip": "the node's first address",
        "cluster_cidrs": "the CIDRs of all pods, with commas",
        "mode": "the mode that was asked for",
        "address": "the address of the cluster's programs, as nodes reach it",
    },
)
OF_CLUSTER = Kind("proxy", (), {name: OF_PROXY.own_placeholders[name] for name in ("cluster_cidrs", "mode", "address")})
"""What the programs of a cluster have, which run on no node."""
OF_DNS = Kind(
    "DNS",
    ("objects",),
    {"pod_ips": "the addresses of its pod, with commas", "zone": "the domain of the cluster, without a final dot"},
)

OF_CONTROLLER = Kind("controller", ("follows", "objects"), {})


@dataclass(frozen=True, slots=True)
class Program:
    """A program that runs on each node, or in the pod. `files` are texts by name, written into the folder first."""

    name: str
    command: tuple[str, ...]
    ready: tuple[Check, ...]
    synced: tuple[Check, ...]
    environment: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...]
    ready_seconds: float


@dataclass(frozen=True, slots=True)
class Recipe:
    """A proxy or a DNS server that is one program or several, which are started in their order.

    Before them `objects` are applied, and the `cluster_programs` started, which run once. On a kind cluster the
    `installation` takes the place of all these; a recipe that has nothing else has no programs.
    """

    name: str
    programs: tuple[Program, ...]
    version: str = ""
    modes: tuple[str, ...] = ("unknown",)
    quiet_seconds: float = QUIET_SECONDS
    supported_features: tuple[str, ...] = ()
    exempt_features: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    isolation: tuple[str, ...] = ()
    judges: str = PACKETS
    follows: str = "released"
    explain: Explain = USUAL
    services: Mapping[str, Any] = field(default_factory=dict)
    converges_within: float = 0.0
    objects: tuple[dict[str, Any], ...] = ()
    cluster_programs: tuple[Program, ...] = ()
    pods: PodCommands | None = None
    installation: Installation | None = None

    @property
    def defines_kinds(self) -> str:
        """The key by which it brings a CustomResourceDefinition, or says that its programs do; "" if none does."""
        return "objects" if defines_kinds(self.objects) else "requires" if CRDS in self.requires else ""

    @property
    def needs(self) -> tuple[str, ...]:
        """All that the machine must have: what it requires, and what its isolation takes."""
        return tuple(each for each in dict.fromkeys((*self.requires, *self.isolation)) if each != CRDS)


def read_recipe(path: str, kind: Kind) -> Recipe:
    """Read the recipe in a file. Raises `UsageError` with the file, the key and the allowed values."""
    what = f"{kind.name} file"
    place = os.path.expanduser(path)  # noqa: PTH111  pathlib's raises for unknown users
    loaded = strict_yaml.read(place, what=what)
    try:
        return parse_recipe(loaded, kind, Path(place).parent)
    except UsageError as error:
        raise UsageError(f"{what} {shown(path)}: {error}") from None


def parse_recipe(loaded: Any, kind: Kind, folder: Path = Path()) -> Recipe:
    """Parse the recipe in a YAML value, whose files are in a folder.

    Raises `UsageError` with the key and the allowed values.
    """
    if not isinstance(loaded, dict):
        raise UsageError(f"want a mapping of keys to values, not {type(loaded).__name__}")
    for key in loaded:
        if key in OF_PROXY.keys and key not in kind.keys:
            raise UsageError(f"key {key} is for recipes of proxies; allowed here: {', '.join(kind.keys)}")
    values.refuse_unknown(loaded, kind.keys, "")
    values.insist(loaded, "name", "")
    programs = _programs(loaded, kind)
    of_cluster = _listed(loaded, "cluster_programs", OF_CLUSTER) if "cluster_programs" in loaded else ()
    _refuse_twice([each.name for each in (*programs, *of_cluster)], "name")
    return Recipe(
        name=values.as_name(loaded["name"], "name"),
        programs=programs,
        version=values.as_line(loaded.get("version", ""), "version"),
        modes=values.as_texts(loaded.get("modes", ["unknown"]), "modes", some=True),
        quiet_seconds=values.as_seconds(loaded.get("quiet_seconds", QUIET_SECONDS), "quiet_seconds"),
        supported_features=values.as_texts(loaded.get("supported_features", []), "supported_features"),
        exempt_features=values.as_texts(loaded.get("exempt_features", []), "exempt_features"),
        requires=values.some_of((*REQUIREMENTS, CRDS), loaded.get("requires", []), "requires"),
        isolation=values.some_of(tuple(OWN), loaded.get("isolation", []), "isolation"),
        judges=values.one_of(JUDGES, loaded.get("judges", PACKETS), "judges"),
        follows=values.one_of(("kep", "released"), loaded.get("follows", "released"), "follows"),
        explain=_explain(loaded["explain"], kind) if "explain" in loaded else USUAL,
        services=_services(loaded.get("services", {})),
        converges_within=values.as_seconds(loaded.get("converges_within", 0), "converges_within"),
        objects=parse_objects(loaded.get("objects", []), folder),
        cluster_programs=of_cluster,
        pods=_pods(loaded["pods"], kind, folder) if "pods" in loaded else None,
        installation=parse_installation(loaded["kind"], folder) if "kind" in loaded else None,
    )


def _programs(loaded: Mapping[str, Any], kind: Kind) -> tuple[Program, ...]:
    """Return the programs of a list, or the one whose keys stand at the top, which has the name of the recipe."""
    at_top = {key: loaded[key] for key in _OF_PROGRAM if key in loaded}
    if "kind" in loaded and not {"programs", "command"} & loaded.keys():
        for key in (*at_top, *(each for each in _OF_EMBEDDED if each in loaded)):
            raise UsageError(f"key {key}: is of programs of the embedded cluster, and there is no command (key kind)")
        return ()
    if "programs" not in loaded:
        return (_program({"name": loaded["name"], **at_top}, "", kind),)
    if at_top:
        raise UsageError(f"key {next(iter(at_top))}: where there are programs, each has its own")
    return _listed(loaded, "programs", kind)


def _listed(loaded: Mapping[str, Any], key: str, kind: Kind) -> tuple[Program, ...]:
    """Return the programs of a list, which share a folder."""
    listed = loaded[key]
    if not isinstance(listed, list) or not listed:
        raise UsageError(f"key {key}: want a list of programs, not {values.shown(listed)}")
    found = tuple(_program(each, f"{key}[{number}].", kind) for number, each in enumerate(listed))
    _refuse_twice([each.name for each in found], f"key {key}: name")
    _refuse_twice([name for each in found for name, _ in each.files], f"key {key}: file")
    return found


def _program(given: Any, where: str, kind: Kind) -> Program:
    if not isinstance(given, dict):
        raise UsageError(f"key {where.rstrip('.')}: want a mapping of keys to values, not {values.shown(given)}")
    values.refuse_unknown(given, ("name", *_OF_PROGRAM), f"key {where.rstrip('.')}: ")
    for key in ("name", "command", "ready"):
        values.insist(given, key, where)
    return Program(
        name=values.as_name(given["name"], f"{where}name"),
        command=values.as_command(given["command"], f"{where}command", kind.placeholders),
        environment=values.as_environment(given.get("environment", {}), f"{where}environment", kind.placeholders),
        files=values.as_files(given.get("files", {}), f"{where}files", kind.placeholders),
        ready=_checks(given["ready"], f"{where}ready"),
        ready_seconds=values.as_seconds(given.get("ready_seconds", READY_SECONDS), f"{where}ready_seconds"),
        synced=_checks(given.get("synced", []), f"{where}synced"),
    )


def _refuse_twice(names: list[str], what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{what} {values.shown(name)} is that of two programs")


def _explain(value: Any, kind: Kind) -> Explain:
    if not isinstance(value, dict) or len(value) != 1:
        raise UsageError(f"key explain: want command or log, not {values.shown(value)}")
    values.refuse_unknown(value, ("command", "log"), "key explain: ")
    allowed = _also(OF_SERVICE, kind)
    if "command" in value:
        return ByCommand(values.as_command(value["command"], "explain.command", allowed))
    template = values.as_template(values.as_text(value["log"], "explain.log"), "explain.log", allowed)
    values.as_pattern(fill(template, dict.fromkeys(allowed, "x")), "key explain.")
    return ByLog(template)


def _pods(value: Any, kind: Kind, folder: Path) -> PodCommands:
    if not isinstance(value, dict):
        raise UsageError(f"key pods: want cni, or attach and detach if need be, not {values.shown(value)}")
    allowed = _also(OF_POD, kind)
    if "cni" in value:
        values.refuse_unknown(value, ("cni",), "key pods, with cni: ")
        file = values.as_template(values.as_text(value["cni"], "pods.cni"), "pods.cni", allowed)
        return by_cni(file if file.startswith(("{", "/")) else f"{literal(str(folder.absolute()))}/{file}")
    values.refuse_unknown(value, ("attach", "detach"), "key pods: ")
    values.insist(value, "attach", "pods.")
    commands = {name: values.as_command(given, f"pods.{name}", allowed) for name, given in value.items()}
    return PodCommands(commands["attach"], commands.get("detach", ()))


def _also(more: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """Return the placeholders of a command that is no program: it has some more, and no log of its own."""
    return {name: what for name, what in {**more, **kind.placeholders}.items() if name != "log_file"}


def _services(value: Any) -> dict[str, Any]:
    """Return what every Service gets, as its manifest has it."""
    if not isinstance(value, dict):
        raise UsageError(f"key services: want a mapping, not {values.shown(value)}")
    values.refuse_unknown(value, ("annotations", "labels", "spec"), "key services: ")
    spec = value.get("spec", {})
    if not isinstance(spec, dict):
        raise UsageError(f"key services.spec: want a mapping, not {values.shown(spec)}")
    for name in spec:
        if name in _OF_REQUIREMENTS:
            raise UsageError(f"key services.spec: {name} is what each requirement says itself")
    told = {
        name: dict(values.as_mapping(value[name], f"services.{name}"))
        for name in ("annotations", "labels")
        if name in value
    }
    return {**({"metadata": told} if told else {}), **({"spec": spec} if spec else {})}


def _checks(value: Any, key: str) -> tuple[Check, ...]:
    if not isinstance(value, list):
        raise UsageError(f"key {key}: want a list of checks, each one of {', '.join(_CHECKS)}")
    return tuple(_check(each, f"key {key}[{number}]: ") for number, each in enumerate(value))


def _check(value: Any, where: str) -> Check:
    want = f"one check, {' or '.join(_CHECKS)}, with its values"
    kind, given = values.single(value, tuple(_CHECKS), where, want=want)
    if kind == "log":
        return LogCheck(values.as_pattern(given, where))
    if not isinstance(given, dict):
        raise UsageError(f"{where}{kind}: want {', '.join(_CHECKS[kind])}, not {values.shown(given)}")
    values.refuse_unknown(given, _CHECKS[kind], f"{where}{kind}: ")
    if kind == "http":
        return HttpCheck(
            port=values.number_of(given, "port", range(1, 65536), where),
            path=values.url_path_of(given, "/healthz", where),
            code=values.number_of(given, "code", range(100, 600), where, default=200),
            contains=values.field_of(given, "contains", "", str, where),
        )
    return MetricsCheck(
        port=values.number_of(given, "port", range(1, 65536), where),
        path=values.url_path_of(given, "/metrics", where),
        zero=values.as_texts(given.get("zero", []), f"{where}zero".removeprefix("key ")),
        not_after=values.as_mapping(given.get("not_after", {}), f"{where}not_after".removeprefix("key ")),
    )
