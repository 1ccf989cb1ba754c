"""Read and validate a recipe: a YAML file that describes how to run a proxy, DNS server or controller."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from harness.checks.program_requirements import PROGRAM, REQUIREMENTS
from harness.errors import UsageError
from harness.model import strict_yaml
from harness.model.files import shown
from harness.model.limits import MOST, Limits
from harness.model.verdict_basis import JUDGES, PACKETS
from harness.netns.isolation import OWN
from harness.recipes import values
from harness.recipes.installation import Installation, parse_installation
from harness.recipes.objects import parse_objects
from harness.recipes.pods import OF_POD, PodCommands
from harness.recipes.readiness import Check, CommandCheck, HttpCheck, LogCheck, MetricsCheck
from harness.recipes.values import Command, ExactlyOneKey, FieldMark, Line, Name, Rule, Seconds, fill, one_of, read

READY_SECONDS = 20.0
QUIET_SECONDS = 0.1

_KEYS = (
    "name", "version", "programs", "quiet_seconds", "converges_within", "supported_features", "exempt_features",
    "requires", "isolation", "limits",
)  # fmt: skip
_OF_PROGRAM = ("command", "environment", "files", "ready", "ready_seconds", "synced")
_OF_EMBEDDED = ("quiet_seconds", "requires", "isolation", "limits", "explain", "objects", "cluster_programs", "pods")
"""Keys that have no effect in a recipe without programs that the harness starts."""
_PLACEHOLDERS = {
    "kubeconfig": "a kubeconfig file for the API server",
    "server": "the URL of the API server",
    "netns": "the path of the program's netns, for nsenter --net=PATH",
    "service_cidrs": "the CIDRs of cluster IPs, separated by commas",
    "log_file": "the log, to which stdout and stderr also go",
    "folder": "a folder for the program's files",
}
OF_SERVICE: Mapping[str, str] = {
    "namespace": "the namespace of the Service",
    "service": "the name of the Service",
    "cluster_ip": "the first cluster IP of the Service, empty if it has none",
}
"""The placeholders that only `explain` accepts, with their meanings."""

_OF_REQUIREMENTS = ("clusterIP", "clusterIPs", "externalName", "ports", "selector", "type")
"""Fields of a Service's spec that each requirement sets explicitly."""


@dataclass(frozen=True, slots=True)
class RecipeKind:
    name: str
    own_keys: tuple[str, ...]
    own_placeholders: Mapping[str, str]

    @property
    def keys(self) -> tuple[str, ...]:
        return (*_KEYS, *_OF_PROGRAM, *self.own_keys)

    @property
    def placeholders(self) -> Mapping[str, str]:
        return {**self.own_placeholders, **_PLACEHOLDERS}

    def placeholders_with(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the placeholders of a command such as `explain`. They include `more`, but not the log file."""
        return {name: what for name, what in {**more, **self.placeholders}.items() if name != "log_file"}


OF_PROXY = RecipeKind(
    "proxy",
    ("modes", "judges", "follows", "explain", "services", "objects", "cluster_programs", "pods", "kind"),
    {
        "node": "the name of the node",
        "node_ip": "the node's first address",
        "cluster_cidrs": "the CIDRs of all pods, separated by commas",
        "mode": "the value of --mode",
        "address": "the address at which nodes reach the cluster programs",
    },
)
OF_CLUSTER = RecipeKind(
    "proxy", (), {name: OF_PROXY.own_placeholders[name] for name in ("cluster_cidrs", "mode", "address")}
)
"""The keys and placeholders of `cluster_programs`, which run once per cluster, and not on a node."""
OF_DNS = RecipeKind(
    "DNS",
    ("objects",),
    {"pod_ips": "the addresses of the pod, separated by commas", "zone": "the cluster domain, without a trailing dot"},
)
OF_CONTROLLER = RecipeKind("controller", ("follows", "objects"), {})


@dataclass(frozen=True, slots=True)
class LogExplainer:
    """Explains a decision with log lines that match a regular expression. Placeholder values are escaped."""

    pattern: values.PatternTemplate

    def filled(self, values: Mapping[str, str]) -> str:
        return fill(self.pattern, {name: re.escape(value) for name, value in values.items()})


@dataclass(frozen=True, slots=True)
class CommandExplainer:
    """Explains a decision with the output of a command that reads the data plane's state in the node's netns."""

    command: Command

    def filled(self, values: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(fill(part, values) for part in self.command)


Explain = LogExplainer | CommandExplainer
_KINDS_OF_CHECKS = {"http": HttpCheck, "metrics": MetricsCheck, "log": LogCheck, "command": CommandCheck}
_OneCheck = Annotated[Check, ExactlyOneKey(_KINDS_OF_CHECKS)]
_Checks = Annotated[tuple[_OneCheck, ...], Rule("a list of checks, each http, metrics, log or command", lambda _: True)]


@dataclass(frozen=True, slots=True)
class Program:
    """A program that runs on each node or in a pod. Its `files` (name, content) are written before it starts."""

    name: Name
    command: Command
    ready: _Checks
    synced: _Checks = ()
    environment: tuple[tuple[values.Variable, values.Template], ...] = ()
    files: tuple[tuple[values.FileName, values.Template], ...] = ()
    ready_seconds: Seconds = READY_SECONDS


@dataclass(frozen=True, slots=True)
class Recipe:
    """A proxy, DNS server or controller: `objects` are created, then `cluster_programs` and `programs` start."""

    name: Name
    programs: Annotated[tuple[Program, ...], FieldMark.READ] = ()
    version: Line = ""
    modes: Annotated[tuple[Line, ...], Rule("at least one string")] = ("unknown",)
    quiet_seconds: Seconds = QUIET_SECONDS
    supported_features: tuple[Line, ...] = ()
    exempt_features: tuple[Line, ...] = ()
    requires: Annotated[tuple[str, ...], FieldMark.READ] = ()
    isolation: tuple[Annotated[str, one_of(*OWN)], ...] = ()
    limits: Limits = field(default_factory=Limits)
    judges: Annotated[str, one_of(*JUDGES)] = PACKETS
    follows: Annotated[str, one_of("kep", "released")] = "released"
    explain: Annotated[Explain, ExactlyOneKey({"command": CommandExplainer, "log": LogExplainer})] = LogExplainer(
        "{namespace}/{service}"
    )
    services: Annotated[Mapping[str, Any], FieldMark.READ] = field(default_factory=dict)
    converges_within: Seconds = 0.0
    objects: Annotated[tuple[dict[str, Any], ...], FieldMark.READ] = ()
    cluster_programs: Annotated[tuple[Program, ...], FieldMark.READ] = ()
    pods: Annotated[PodCommands | None, FieldMark.READ] = None
    installation: Annotated[Installation | None, FieldMark.READ] = None

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.requires, *self.isolation)))


def read_recipe(path: str, kind: RecipeKind) -> Recipe:
    """Read a recipe from a file. Raises `UsageError` with the file, the key and the allowed values."""
    what = f"{kind.name} file"
    place = os.path.expanduser(path)  # noqa: PTH111  Path.expanduser raises for unknown users
    loaded = strict_yaml.read(place, what=what)
    try:
        return parse_recipe(loaded, kind, Path(place).parent)
    except UsageError as error:
        raise UsageError(f"{what} {shown(path)}: {error}") from None


def parse_recipe(loaded: Any, kind: RecipeKind, folder: Path = Path()) -> Recipe:
    """Parse a recipe. File names are relative to `folder`. Raises `UsageError` with the key and the allowed values."""
    if not isinstance(loaded, dict):
        raise UsageError(f"expected a mapping of keys to values, not {type(loaded).__name__}")
    for key in loaded:
        if key in OF_PROXY.keys and key not in kind.keys:
            raise UsageError(f"key {key} is for recipes of proxies; allowed here: {', '.join(kind.keys)}")
    values.refuse_unknown(loaded, kind.keys, "")
    if not loaded.get("name"):
        raise UsageError("key name is missing")
    given = {key: value for key, value in loaded.items() if key not in _OF_PROGRAM and key != "kind"}
    given["programs"] = programs = _programs(loaded, kind)
    if "cluster_programs" in given:
        given["cluster_programs"] = _listed(loaded, "cluster_programs", OF_CLUSTER)
    _refuse_twice([each.name for each in (*programs, *given.get("cluster_programs", ()))], "name")
    parsers: Mapping[str, Callable[[Any], Any]] = {
        "services": _services,
        "objects": lambda value: parse_objects(value, folder),
        "requires": _requirements,
        "pods": lambda value: read(value, PodCommands, "pods", kind.placeholders_with(OF_POD)),
    }
    given |= {key: parse(given[key]) for key, parse in parsers.items() if key in given}
    if "kind" in loaded:
        given["installation"] = parse_installation(loaded["kind"], folder)
    recipe: Recipe = read(given, Recipe, "", kind.placeholders_with(OF_SERVICE))
    for name, limit in asdict(recipe.limits).items():
        if not 0 <= limit <= MOST:
            raise UsageError(f"key limits.{name}: expected 0 (no limit) to {MOST:,}, not {values.shown(limit)}")
    return recipe


def _programs(loaded: Mapping[str, Any], kind: RecipeKind) -> tuple[Program, ...]:
    """Return the programs in the list, or a single program from top-level keys, which is named after the recipe."""
    at_top = {key: loaded[key] for key in _OF_PROGRAM if key in loaded}
    if "kind" in loaded and not {"programs", "command"} & loaded.keys():
        for key in (*at_top, *(each for each in _OF_EMBEDDED if each in loaded)):
            raise UsageError(
                f"key {key}: applies to programs on the embedded cluster, but the recipe has no command, only key kind"
            )
        return ()
    if "programs" not in loaded:
        return (read({"name": loaded["name"], **at_top}, Program, "", kind.placeholders),)
    if at_top:
        raise UsageError(f"key {next(iter(at_top))}: must be set for each entry of programs, not at the top level")
    return _listed(loaded, "programs", kind)


def _listed(loaded: Mapping[str, Any], key: str, kind: RecipeKind) -> tuple[Program, ...]:
    want = Annotated[tuple[Program, ...], Rule("a list of programs")]
    found: tuple[Program, ...] = read(loaded[key], want, key, kind.placeholders)
    _refuse_twice([each.name for each in found], f"key {key}: name")
    _refuse_twice([name for each in found for name, _ in each.files], f"key {key}: file")
    return found


def _refuse_twice(names: list[str], what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{what} {values.shown(name)} is used by two programs")


def _requirements(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise UsageError(f"key requires: expected a list, not {values.shown(value)}")
    found = []
    for number, each in enumerate(value):
        where = f"requires[{number}]"
        if isinstance(each, dict):
            _, name = values.one_key(each, ("program",), where)
            found.append(PROGRAM + str(read(name, Name, f"{where}.program")))
        else:
            found.append(str(read(each, Annotated[str, one_of(*REQUIREMENTS)], where)))
    return tuple(found)


def _services(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"key services: expected a mapping, not {values.shown(value)}")
    values.refuse_unknown(value, ("annotations", "labels", "spec"), "key services: ")
    spec = value.get("spec", {})
    if not isinstance(spec, dict):
        raise UsageError(f"key services.spec: expected a mapping, not {values.shown(spec)}")
    for name in spec:
        if name in _OF_REQUIREMENTS:
            raise UsageError(f"key services.spec: {name} is not allowed, because each requirement sets it")
    texts = tuple[tuple[values.Key, values.Text], ...]
    metadata = {
        name: dict(read(value[name], texts, f"services.{name}")) for name in ("annotations", "labels") if name in value
    }
    return {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}
