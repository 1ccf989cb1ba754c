"""The table of a run's options, for all sources.

`trafficdist run --backend netns` and `pytest --td-backend=netns` are the same option, and so are TRAFFICDIST_BACKEND
and the key `backend` of an options file. Both front ends are made from this one table, so that they cannot drift apart.
The nearest source wins: command line, environment, options file, ini file, default.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from harness.control_planes import choice
from harness.errors import UsageError
from harness.eventually import FAR
from harness.model.files import fault_of_path, shown
from harness.model.generation import check_amount
from harness.model.judged import JUDGES
from harness.model.networks import NO_CNI
from harness.model.probing import WAYS
from harness.model.release import parse_gates
from harness.model.requirements import Profile
from harness.model.topology import THREE_ZONES, TOPOLOGIES, parse_topology
from harness.settings.claims import (
    INSTALLED,
    REAL_CLUSTERS,
    REFERENCE,
    ChosenProxy,
    check_dns,
    controller_claims,
    dns_claims,
    parse_proxy,
    proxy_claims,
)
from harness.settings.settings import Settings

ENVIRONMENT_PREFIX = "TRAFFICDIST_"

FEW = 8
"""The number of names that an error lists."""

LONG = 100
"""The number of letters of a name that an error shows."""

LONGEST = 4096
"""The most letters of a value."""

MOST_WORKERS = 512
"""Each of them is a process; `auto` takes a few."""

_HIGHEST_SEED = 2**63 - 1  # what each format of a report can hold

_OF_COMMANDS = ("OPTIONS_FILE", "CACHE", "MIRROR")
"""Environment variables of commands that are no options of a run."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option under all its names. `kind` is "value", "list" (repeatable, or with commas) or "flag".

    `group` is the heading under which `--help` shows it. `allowed` are all its values, if they are few. `backends` are
    those that use it, () for all; with another it is refused.
    """

    name: str
    help: str
    kind: str = "value"
    metavar: str = "TEXT"
    default: Any = None
    check: Callable[[str], Any] = field(default=str)
    allowed: tuple[str, ...] = ()
    group: str = ""
    backends: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name as a Python identifier."""
        return self.name.replace("-", "_")

    @property
    def environment(self) -> str:
        """The environment variable of the same meaning."""
        return ENVIRONMENT_PREFIX + self.key.upper()


def _control_plane(text: str) -> str:
    choice.parse_plane(text)
    return text


def _controller(text: str) -> str:
    choice.parse_controller(text)
    return text


def _mutant(text: str) -> str:
    from harness.settings.mutants import mutants

    if text not in mutants():
        raise UsageError(unknown_name(text, list(mutants()), "mutant"))
    return text


def _gate(text: str) -> str:
    parse_gates((text,))
    return text


def _patch(text: str) -> str:
    if not re.fullmatch(r"(\d+\.\d+)=\1\.\d+", text):
        raise UsageError(f"{text!r}: want a minor version and one of its patches, like 1.30=1.30.14")
    return text


def _seed(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f"{text[:LONG]!r} is not a whole number") from None
    if not 0 <= number <= _HIGHEST_SEED:
        raise UsageError(f"{text[:LONG]!r} is not a number from 0 to {_HIGHEST_SEED}")
    return number


def _path(text: str) -> str:
    if fault := fault_of_path(text):
        raise UsageError(f"{text[:LONG]!r} is no path: {fault}")
    return text


def _file(text: str) -> str:
    if not os.path.isfile(_path(text)):  # noqa: PTH113  a text until here
        raise UsageError(f"there is no file {shown(text)}")
    return text


def _cni(text: str) -> str:
    return text if text == NO_CNI else _file(text)


def _paths(text: str) -> str:
    for each in text.split(os.pathsep):
        _path(each)
    return text


def _scenarios(text: str) -> str:
    """Refuse what no file of scenarios can be before a cluster boots; the suite reads the rest of it."""
    from harness.model import strict_yaml

    loaded = strict_yaml.read(_path(text), what="file of scenarios")
    if not isinstance(loaded, list) or not loaded or not all(isinstance(each, dict) for each in loaded):
        raise UsageError(f"file of scenarios {shown(text)}: want a list of scenarios, as --generate prints them")
    return text


def _version(text: str) -> str:
    if not re.fullmatch(r"v?1\.\d{1,3}(\.\d{1,3})?([-+][0-9A-Za-z.+-]{1,60})?", text, re.ASCII):
        raise UsageError(f"{text[:LONG]!r} is no version of Kubernetes: want one like 1.31 or 1.31.2")
    return text


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < 1000.0:
        raise UsageError(f"{text!r} is not a number above 0 and below 1000")
    return number


def _workers(text: str) -> str:
    if text == "auto":
        return text
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise UsageError(f"{text[:LONG]!r} is neither a number of processes (0: none but this one) nor 'auto'")
    if int(text) > MOST_WORKERS:
        raise UsageError(f"{text} are too many processes: want at most {MOST_WORKERS}, or 'auto'")
    return text


_NETNS, _KUBECONFIG, _KIND = ("netns",), ("kubeconfig",), ("kind",)

_JUDGED = (
    Option("proxy", "Service proxy to judge: reference, kube-proxy[:VERSION], a YAML file that describes how to run "
           "one, or installed for the proxy of a real cluster. [reference; on a real cluster installed]",
           metavar="NAME", check=parse_proxy),
    Option("mode", "Proxy mode: nftables, iptables or ipvs. [the proxy's default]", metavar="MODE"),
    Option("judges", "What the packets of the run follow: packets, if the implementation carries them itself, or "
           "decisions, if rules of somebody else carry out what it decides. [packets]", metavar="WHICH",
           allowed=JUDGES),
    Option("dns", "DNS server to judge: reference, or a YAML file that describes how to run one in a pod. [reference]",
           metavar="NAME", default=REFERENCE, check=check_dns, backends=_NETNS),
    Option("control-plane", "Control plane to run: embedded (the reference), or etcd, kube-apiserver and "
           "kube-controller-manager as binaries:VERSION from the cache or as containers:VERSION from the official "
           "images. [embedded]",
           metavar="NAME", check=_control_plane, backends=_NETNS),
    Option("controller", "EndpointSlice controller to run: reference, kube-controller-manager[:VERSION], or a YAML "
           "file that describes any other. [the one of the control plane]", metavar="NAME", check=_controller,
           backends=_NETNS),
    Option("mutant", "Judge the reference with this fault, to see which requirements fail. Never certifiable.",
           metavar="NAME", check=_mutant, backends=_NETNS),
    Option("kubernetes-version", "Kubernetes version that the reference behaves as, for example 1.31. [the newest]",
           metavar="VERSION", check=_version, backends=_NETNS),
    Option("feature-gates", "Feature gates of the reference or of --backend kind, for example "
           "PreferSameTrafficDistribution=false. With --backend kubeconfig, the gates of the API server, in case its "
           "/metrics cannot be read. Repeatable.", kind="list", metavar="GATES", default=(), check=_gate),
    Option("follow", "Source to follow where the text of a KEP and released Kubernetes differ: kep or released. "
           "[kep for the reference]", metavar="WHICH", allowed=("kep", "released")),
    Option("converges-within", "Seconds, before the time scale, within which the implementation promises to take up "
           f"every change: later is a failure. Without it the suite waits up to {FAR:g} s and reports the time. "
           "[5 for the reference and kube-proxy, 10 with kube-controller-manager]",
           metavar="SECONDS", default=0.0, check=_positive),
    Option("supported-features", "Extended features that the implementation claims. Repeatable.", kind="list",
           metavar="FEATURES", default=()),
    Option("exempt-features", "Features that the implementation does not claim, though expected by default. "
           "Repeatable.", kind="list", metavar="FEATURES", default=()),
    Option("all-features", "Claim every feature.", kind="flag", default=False),
)  # fmt: skip

_PLACE = (
    Option("backend", "Cluster to run on: netns (network namespaces on this machine), kubeconfig (an existing cluster) "
           "or kind (a temporary kind cluster).", metavar="NAME",
           allowed=(*_NETNS, *_KUBECONFIG, *_KIND)),
    Option("kubeconfig", "Path to the kubeconfig file, or several paths as in $KUBECONFIG. [$KUBECONFIG, "
           "~/.kube/config, or the service account of this pod]", metavar="FILE", check=_paths,
           backends=_KUBECONFIG),
    Option("context", "Kubeconfig context to use. [the current one]", metavar="NAME", backends=_KUBECONFIG),
    Option("image-registry", "Registry that nodes pull the test image from. [registry.k8s.io/e2e-test-images]",
           metavar="REGISTRY", backends=(*_KUBECONFIG, *_KIND)),
    Option("allow-disruptive", "Allow the run to change labels and taints of the cluster's nodes; it restores them.",
           kind="flag", default=False, backends=_KUBECONFIG),
    Option("kind-image", "Node image for --backend kind, for example kindest/node:v1.34.3, or by role: "
           "control-plane=IMAGE,worker=IMAGE. [kind's own]", metavar="IMAGE", backends=_KIND),
    Option("kind-patch", "Patch release to use for a minor version with --backend kind, for example 1.30=1.30.14. "
           "Repeatable. [the newest at https://dl.k8s.io]", kind="list", metavar="VERSIONS", default=(), check=_patch,
           backends=_KIND),
    Option("cni", "Network plugin of --backend kind: a file of manifests that install it, with kind's own left out, or "
           "none if the recipe of --proxy brings one. [that of the recipe, or kind's own]", metavar="FILE", check=_cni,
           backends=_KIND),
    Option("probes", "Way to ask a real cluster: packets, as root from the network namespaces of nodes and pods, where "
           "nodes are containers of this machine; or agnhost, in pods and through the API server. [packets where they "
           "can be]", metavar="WAY", allowed=WAYS, backends=(*_KUBECONFIG, *_KIND)),
    Option("keep-cluster", "Keep the cluster of --backend kind after the run.", kind="flag", default=False,
           backends=_KIND),
    Option("topology", f"Zones and nodes of the cluster: {', '.join(TOPOLOGIES)}, or nodes by zone, as in a=2,b=2,c=1.",
           metavar="TOPOLOGY",
           default=THREE_ZONES, check=parse_topology),
    Option("families", "IP families of the cluster, primary first.", kind="list", metavar="FAMILIES",
           default=("IPv4", "IPv6"), allowed=("IPv4", "IPv6"), backends=(*_NETNS, *_KIND)),
)  # fmt: skip

_SELECTED = (
    Option("profile", f"Judge only these profiles: {', '.join(Profile)}. Repeatable.", kind="list", metavar="PROFILE",
           default=(), check=str.lower, allowed=tuple(Profile)),
    Option("run-test", "Run only requirements whose ids match; * and ? are wildcards. Repeatable.",
           kind="list", metavar="IDS", default=()),
    Option("generate", "Ask scenarios that a program makes, and no others: for so long (60s, 10m), or so many (500). "
           "They follow from --seed. See docs/generated.md.", metavar="AMOUNT", check=check_amount),
    Option("replay", "Ask the scenarios of this file, and no others: those that --generate printed.", metavar="FILE",
           check=_scenarios),
    Option("quick", "Run only the requirements that find most mutants in 30 s on two processors. Never certifiable.",
           kind="flag", default=False),
    Option("skip-tests", "Skip requirements whose ids match; * and ? are wildcards. Repeatable.",
           kind="list", metavar="IDS", default=()),
)  # fmt: skip

_RUN = (
    Option("seed", "Random seed. Each run prints the seed that it used.", metavar="N", check=_seed),
    Option("time-scale", "Multiply every time limit by this factor, for slow machines. The report shows it.",
           metavar="FACTOR", default=1.0, check=_positive),
    Option("fail-fast", "Stop at the first MUST that is not met; with --warnings-as-errors, at the first SHOULD too.",
           kind="flag", default=False),
    Option("warnings-as-errors", "End with 1 if a SHOULD is not met, as with a MUST.", kind="flag", default=False),
    Option("workers", "Number of worker processes; 0 runs everything in this process, and auto chooses by processors, "
           "memory, backend and selected requirements. [auto; 0 under pytest itself]", metavar="N", check=_workers),
)  # fmt: skip

_LEFT = (
    Option("output-dir", "Folder for reports, history and evidence. [./trafficdist-results/<time>]", metavar="FOLDER",
           check=_path),
    Option("keep", "When to keep evidence (rules, slices, nodes): failed, always or never.", metavar="WHEN",
           default="failed", allowed=("failed", "always", "never")),
    Option("organization", "Organization behind the implementation, for the report."),
    Option("project", "Name of the implementation, for the report."),
    Option("url", "Website of the implementation, for the report."),
    Option("version", "Version of the implementation, for the report."),
    Option("contact", "Contact for the implementation, for the report. Repeatable.", kind="list", default=()),
)  # fmt: skip

_GROUPS: Mapping[str, tuple[Option, ...]] = {
    "What is judged": _JUDGED,
    "Where it runs": _PLACE,
    "Which requirements": _SELECTED,
    "How it runs": _RUN,
    "What it leaves": _LEFT,
}
"""The options under each heading of `--help`."""

OPTIONS: tuple[Option, ...] = tuple(replace(each, group=group) for group, some in _GROUPS.items() for each in some)

BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}


def unknown_name(name: str, allowed: Sequence[str], what: str) -> str:
    """Return an error text for an unknown name, with the nearest known ones, or the first few of all."""
    name = name if len(name) <= LONG else f"{name[:LONG]}…"
    near = difflib.get_close_matches(name, allowed, n=3, cutoff=0.5)
    few = sorted(allowed)[:FEW]
    more = f" and {len(allowed) - FEW} more" if len(allowed) > FEW else ""
    hint = f"did you mean {', '.join(near)}?" if near else f"allowed: {', '.join(few) or 'none'}{more}"
    return f"unknown {what} {name!r}; {hint}"


def read_options_file(path: str) -> dict[str, Any]:
    """Read the options in a YAML file, by name. Raises `UsageError` that names the file and the error."""
    from harness.model import strict_yaml

    where = f"options file {shown(path)}"
    loaded = strict_yaml.read(path, what="options file")
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise UsageError(f"{where}: want a mapping of option names to values, not {type(loaded).__name__}")
    for name in loaded:
        if name not in BY_NAME:
            raise UsageError(f"{where}: {unknown_name(name, list(BY_NAME), 'option')}")
    return loaded


def resolve(
    given: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    options_file: str = "",
    ini: Mapping[str, Any] | None = None,
    backend: str = "",
) -> Settings:
    """Combine all sources into settings. `given` and `ini` are by option name; absent, None and () mean not given.

    `backend` is the one if no source names any. Raises `UsageError` with the value, its source, and the allowed values.
    """
    values, places = _gather(OPTIONS, given, environment=environment, options_file=options_file, ini=ini)
    values["backend"] = values["backend"] or backend
    _refuse_unused(values, places)
    values["proxy"] = values["proxy"] or ChosenProxy(INSTALLED if values["backend"] in REAL_CLUSTERS else REFERENCE)
    if values["generate"] and values["replay"]:
        raise UsageError(f"{places['replay']}: --generate makes scenarios, and --replay has them: give one of the two")
    for name in ("run-test", "generate", "replay") if values["quick"] else ():
        if values[BY_NAME[name].key]:
            raise UsageError(f"{places[BY_NAME[name].key]}: --quick chooses what to ask itself: give one of the two")
    _claim(values)
    values["seed"] = int.from_bytes(os.urandom(4)) if values["seed"] is None else values["seed"]
    return Settings(**_without_none(values))


def resolve_some(given: Mapping[str, Any]) -> dict[str, Any]:
    """Combine the sources of these options alone, for a command that is no run, by key. Raises as `resolve` does."""
    values, _ = _gather([BY_NAME[key.replace("_", "-")] for key in given], given)
    return _without_none(values)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with "" for a text that was not given."""
    return {key: "" if value is None else value for key, value in values.items()}


def _gather(
    options: Iterable[Option],
    given: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    options_file: str = "",
    ini: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of options by key, and the places of those that were given."""
    environment = os.environ if environment is None else environment
    options_file = options_file or environment.get(ENVIRONMENT_PREFIX + "OPTIONS_FILE", "")
    in_file = read_options_file(options_file) if options_file else {}
    _refuse_unknown_variables(environment)
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for option in options:
        for place, value in (
            (f"--{option.name}", given.get(option.name)),
            (f"environment variable {option.environment}", environment.get(option.environment)),
            (f"options file {shown(options_file)}, key {option.name}", in_file.get(option.name)),
            (f"ini file, td_{option.key}", (ini or {}).get(option.name)),
        ):
            if value not in (None, "", (), []):
                values[option.key], places[option.key] = _convert(option, value, place), place
                break
        else:
            values[option.key] = option.default
    return values, places


def _refuse_unused(values: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Refuse what was given and does nothing with this backend: who gave it would be told of something else."""
    backend = values["backend"]
    for option in OPTIONS:
        unused = backend and option.backends and backend not in option.backends
        if unused and option.key in places and values[option.key] is not False:
            others = " or ".join(option.backends)
            raise UsageError(f"{places[option.key]}: --backend {backend} does not use it; it is for --backend {others}")


def _claim(values: dict[str, Any]) -> None:
    """Fill in the default claims of control plane, proxy and DNS server, for options that were not given."""
    given = {key for key, value in values.items() if value} - {"exempt_features"}
    given |= {"exempt_features"} if values["all_features"] else set()
    supported = values["supported_features"]
    # the control plane's claims come first: they set the version for the proxy's; a proxy is named before a DNS server
    for claim in (
        choice.control_plane_claims,
        controller_claims,
        lambda known: asdict(proxy_claims(known)),
        dns_claims,
    ):
        claims = claim(values)
        claims["exempt_features"] = tuple(each for each in claims.get("exempt_features", ()) if each not in supported)
        for key, value in claims.items():
            if key not in given:
                both = isinstance(value, tuple)
                values[key] = _joined(values[key] or (), value) if both else values[key] or value


def _joined(some: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*some, *others)))


def _refuse_unknown_variables(environment: Mapping[str, str]) -> None:
    known = {option.environment for option in OPTIONS} | {ENVIRONMENT_PREFIX + each for each in _OF_COMMANDS}
    for name in environment:
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            raise UsageError(unknown_name(name, sorted(known), "environment variable"))


def _convert(option: Option, value: Any, place: str) -> Any:
    try:
        if option.kind == "flag":
            return _flag(value)
        if option.kind == "list":
            return tuple(dict.fromkeys(_checked(option, part) for part in _parts(value)))
        if isinstance(value, (dict, list)):
            raise UsageError(f"want one value, not {str(value)[:LONG]}")
        return _checked(option, str(value))
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _checked(option: Option, text: str) -> Any:
    if len(text) > LONGEST:
        raise UsageError(f"has {len(text):,} letters, more than {LONGEST:,}: {text[:LONG]!r}…")
    if not text.isprintable():
        odd = next(each for each in text if not each.isprintable())
        raise UsageError(f"{text[:LONG]!r} has a character that is not printable: {odd!r}")
    value = option.check(text)
    if option.allowed and value not in option.allowed:
        raise UsageError(f"unknown value {text[:LONG]!r}; allowed: {', '.join(option.allowed)}")
    return value


def _parts(value: Any) -> list[str]:
    items = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(item, (dict, list)) for item in items):
        raise UsageError(f"want a list of words, not {str(value)[:LONG]}")
    return [part.strip() for item in items for part in str(item).split(",") if part.strip()]


def _flag(value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    try:
        return words[str(value).lower()]
    except KeyError:
        raise UsageError(f"want yes or no, not {str(value)[:LONG]!r}") from None
