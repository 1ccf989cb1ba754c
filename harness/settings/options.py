"""All options of a run, for the command and for pytest.

`trafficdist run --backend netns`, `pytest --td-backend=netns`, TRAFFICDIST_BACKEND and the key `backend` of an options
file all set the same option. The order of precedence is command line, environment, options file, ini file, default. One
function resolves all sources, because pytest, unlike click, cannot read the environment and the file.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.control_planes import choice
from harness.errors import UsageError
from harness.eventually import FAR
from harness.model.cluster_options import WAYS
from harness.model.files import shown
from harness.model.generation_settings import check_amount
from harness.model.requirements import Profile
from harness.model.topology import THREE_ZONES, TOPOLOGIES, parse_topology
from harness.model.verdict_basis import JUDGES, PACKETS
from harness.settings import parsing
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
from harness.settings.parsing import LONG, unknown_name
from harness.settings.settings import Settings

ENVIRONMENT_PREFIX = "TRAFFICDIST_"
LONGEST = 4096  # maximum number of characters of a value


@dataclass(frozen=True, slots=True)
class Option:
    """One option, with its name in each source. `kind` is "value", "list" (repeatable, or comma-separated) or "flag".

    `group` is the heading in `--help`. `allowed` lists all values if there are few. `backends` lists the backends that
    use the option, and () means all; other backends reject the option. If `on_command_line` is false, only an options
    file or the environment can set the option, and `trafficdist run` does not offer it.
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
    on_command_line: bool = True

    @property
    def key(self) -> str:
        return self.name.replace("-", "_")

    @property
    def environment(self) -> str:
        return ENVIRONMENT_PREFIX + self.key.upper()

    def convert(self, value: Any, place: str) -> Any:
        """Validate and convert a value. Raises a `UsageError` that names `place`, the value's source."""
        try:
            if self.kind == "flag":
                return _flag(value)
            if self.kind == "list":
                return tuple(dict.fromkeys(self._checked(part) for part in _parts(value)))
            if isinstance(value, (dict, list)):
                raise UsageError(f"expected one value, not {str(value)[:LONG]}")
            return self._checked(str(value))
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None

    def _checked(self, text: str) -> Any:
        if len(text) > LONGEST:
            raise UsageError(f"has {len(text):,} characters, more than {LONGEST:,}: {text[:LONG]!r}…")
        if hidden := next((each for each in text if not each.isprintable()), ""):
            raise UsageError(f"{text[:LONG]!r} has a character that is not printable: {hidden!r}")
        value = self.check(text)
        if self.allowed and value not in self.allowed:
            raise UsageError(f"unknown value {text[:LONG]!r}; allowed: {', '.join(self.allowed)}")
        return value


def _parts(value: Any) -> list[str]:
    items = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(item, (dict, list)) for item in items):
        raise UsageError(f"expected a list of words, not {str(value)[:LONG]}")
    return [part.strip() for item in items for part in str(item).split(",") if part.strip()]


def _flag(value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    try:
        return words[str(value).lower()]
    except KeyError:
        raise UsageError(f"expected yes or no, not {str(value)[:LONG]!r}") from None


DEFAULT_SEED = 1
_OF_COMMANDS = ("OPTIONS_FILE", "CACHE", "MIRROR")
"""Environment variables that configure commands but are not run options."""

_NETNS, _KUBECONFIG, _KIND = ("netns",), ("kubeconfig",), ("kind",)

_JUDGED = (
    Option("proxy", "Service proxy to judge: reference, kube-proxy[:VERSION], a YAML file that describes how to run a "
           "proxy, or installed (the proxy of a real cluster). [default: installed on a real cluster, else reference]",
           metavar="NAME", check=parse_proxy),
    Option("mode", "Proxy mode: nftables, iptables or ipvs. [default: the proxy's own]", metavar="MODE"),
    Option("judges", "Basis of the verdicts: packets, if the implementation forwards the packets itself, or "
           "decisions, if it only decides and another data plane forwards the packets. [default: packets]",
           metavar="NAME", allowed=JUDGES, on_command_line=False),
    Option("dns", "DNS server to judge: reference, or a YAML file that describes how to run one in a pod.",
           metavar="NAME", default=REFERENCE, check=check_dns, backends=_NETNS),
    Option("control-plane", "Control plane to run: embedded (the reference), or etcd, kube-apiserver and "
           "kube-controller-manager as binaries:VERSION from the cache or as containers:VERSION from the official "
           "images. [default: embedded]", metavar="NAME", check=parsing.control_plane, backends=_NETNS),
    Option("controller", "EndpointSlice controller to run: reference, kube-controller-manager[:VERSION], or a YAML "
           "file that describes another controller. [default: the control plane's own]", metavar="NAME",
           check=parsing.controller, backends=_NETNS),
    Option("mutant", "Run the reference with this mutant (deliberate fault), to see which requirements fail. The "
           "run is never certifiable.", metavar="NAME", check=parsing.mutant, backends=_NETNS),
    Option("kubernetes-version", "Kubernetes version that the reference emulates, such as 1.31. [default: the latest]",
           metavar="VERSION", check=parsing.kubernetes_version, backends=_NETNS),
    Option("feature-gates", "Feature gates of the reference or of --backend kind, for example "
           "PreferSameTrafficDistribution=false. With --backend kubeconfig, the gates of the API server, if its "
           "/metrics does not report them. Repeatable.", kind="list", metavar="GATES", default=(), check=parsing.gate),
    Option("follow", "Source to follow if the text of a KEP and released Kubernetes differ: kep or released. "
           "[default: kep for the reference]", metavar="SOURCE", allowed=("kep", "released")),
    Option("converges-within", "Time limit in seconds (times --time-scale) within which the implementation promises to "
           f"apply every change. A slower change is a failure. If unset, a run waits up to {FAR:g} s and reports the "
           "time. [default: 5 for the reference and kube-proxy, 10 with kube-controller-manager]",
           metavar="SECONDS", default=0.0, check=parsing.positive, on_command_line=False),
    Option("limits", "Limits of all programs on a node: memory=MB, processes=NUMBER, log=MB. The limits in a "
           "recipe take precedence. [default: memory=2048,processes=4096,log=256]", kind="list", metavar="LIMITS",
           default=(), check=parsing.limit, backends=_NETNS, on_command_line=False),
    Option("supported-features", "Extended features that the implementation claims. Repeatable.", kind="list",
           metavar="FEATURES", default=(), on_command_line=False),
    Option("exempt-features", "Features that the implementation does not claim although they are expected by default. "
           "Repeatable.", kind="list", metavar="FEATURES", default=(), on_command_line=False),
    Option("all-features", "Claim every feature.", kind="flag", default=False, on_command_line=False),
)  # fmt: skip

_CLUSTER = (
    Option("backend", "Cluster to run on: netns (network namespaces on this machine), kubeconfig (an existing cluster) "
           "or kind (a temporary kind cluster).", metavar="NAME",
           allowed=(*_NETNS, *_KUBECONFIG, *_KIND)),
    Option("kubeconfig", "Path to the kubeconfig file, or several paths as in $KUBECONFIG. "
           "[default: $KUBECONFIG, ~/.kube/config, or the service account of this pod]", metavar="FILE",
           check=parsing.paths, backends=_KUBECONFIG),
    Option("context", "Kubeconfig context to use. [default: the current one]", metavar="NAME", backends=_KUBECONFIG),
    Option("image-registry", "Registry from which nodes pull the test image. [default: registry.k8s.io/"
           "e2e-test-images]", metavar="REGISTRY", backends=(*_KUBECONFIG, *_KIND), on_command_line=False),
    Option("allow-disruptive", "Allow the run to change labels and taints of the cluster's nodes and restore them.",
           kind="flag", default=False, backends=_KUBECONFIG),
    Option("kind-image", "Node image for --backend kind, for example kindest/node:v1.34.3, or by role: "
           "control-plane=IMAGE,worker=IMAGE. [default: kind's own]", metavar="IMAGE", backends=_KIND),
    Option("kind-patch", "Patch release to use for a minor version with --backend kind, for example 1.30=1.30.14. "
           "Repeatable. [default: the latest on the node, else the latest at https://dl.k8s.io]", kind="list",
           metavar="VERSIONS", default=(), check=parsing.patch, backends=_KIND, on_command_line=False),
    Option("cni", "Network plugin of --backend kind: a file of manifests to install instead of kind's own plugin, or "
           "none if the recipe of --proxy installs one. [default: the recipe's plugin, or kind's own]", metavar="FILE",
           check=parsing.cni, backends=_KIND),
    Option("probes", "How to probe a real cluster: packets (as root from the network namespaces of nodes and pods, if "
           "the nodes are containers on this machine) or agnhost (in pods, through the API server). [default: packets "
           "if possible]", metavar="METHOD", allowed=WAYS, backends=(*_KUBECONFIG, *_KIND), on_command_line=False),
    Option("keep-cluster", "Keep the cluster of --backend kind after the run.", kind="flag", default=False,
           backends=_KIND, on_command_line=False),
    Option("topology", f"Zones and nodes of the cluster: {', '.join(TOPOLOGIES)}, or nodes by zone, as in a=2,b=2,c=1.",
           metavar="TOPOLOGY", default=THREE_ZONES, check=parse_topology),
    Option("families", "IP families of the cluster, primary first.", kind="list", metavar="FAMILIES",
           default=("IPv4", "IPv6"), allowed=("IPv4", "IPv6"), backends=(*_NETNS, *_KIND)),
)  # fmt: skip

_SELECTION = (
    Option("profile", f"Judge only these profiles: {', '.join(Profile)}. Repeatable.", kind="list", metavar="PROFILE",
           default=(), check=str.lower, allowed=tuple(Profile)),
    Option("run-test", "Run only requirements whose ids match; * and ? are wildcards. Repeatable.",
           kind="list", metavar="IDS", default=()),
    Option("generate", "Run only generated scenarios, for a time (60s, 10m) or up to a number (500). The seed "
           "determines the scenarios. See docs/generated-scenarios.md.", metavar="TIME|COUNT", check=check_amount),
    Option("replay", "Run only the scenarios in this file, which --generate printed.", metavar="FILE",
           check=parsing.scenarios),
    Option("quick", "Run only requirements that together detect many mutants in 30 s on two CPUs. The run is "
           "never certifiable.", kind="flag", default=False),
    Option("skip-tests", "Skip requirements whose ids match; * and ? are wildcards. Repeatable.",
           kind="list", metavar="IDS", default=()),
    Option("shard", "Run only one part of the selection, for example 2/5 on the second of five machines. `trafficdist "
           "merge` makes one report of all parts.", metavar="NUMBER/COUNT", check=parsing.shard, default=""),
)  # fmt: skip

_EXECUTION = (
    Option("seed", "Seed of all random values of a run. [default: 1; random with --generate]", metavar="NUMBER",
           check=parsing.seed),
    Option("draw", "For all requirements, use these values instead of random ones, for example "
           "names=cloud,slices=each, or plain for the default values. [default: random, determined by the seed]",
           metavar="VALUES", check=parsing.draw, default=""),
    Option("time-scale", "Multiply every time limit by this factor, for slow machines. The report shows the factor.",
           metavar="FACTOR", default=1.0, check=parsing.positive, on_command_line=False),
    Option("fail-fast", "Stop at the first MUST that is not met; with --warnings-as-errors, at the first SHOULD too.",
           kind="flag", default=False,
           on_command_line=False),
    Option("warnings-as-errors", "Exit with 1 if a SHOULD is not met, as with a MUST.", kind="flag", default=False),
    Option("workers", "Number of worker processes. 0 runs all tests in this process; auto depends on CPUs, "
           "memory, backend and selected requirements. [default: auto; 0 under pytest itself]", metavar="COUNT",
           check=parsing.workers),
)  # fmt: skip

_OUTPUT = (
    Option("output-dir", "Folder for reports, history and evidence. [default: ./trafficdist-results/<time>]",
           metavar="FOLDER", check=parsing.path),
    Option("keep", "When to keep evidence (rules, slices, nodes): failed, always or never.", metavar="CONDITION",
           default="failed", allowed=("failed", "always", "never"), on_command_line=False),
    Option("junit-warnings", "Element of junit.xml for a SHOULD that is not met: skipped, or failure for a CI system "
           "that reads only JUnit.", metavar="ELEMENT", default="skipped", allowed=("skipped", "failure"),
           on_command_line=False),
    Option("organization", "Organization behind the implementation, for the report.", on_command_line=False),
    Option("project", "Name of the implementation, for the report.", on_command_line=False),
    Option("url", "Website of the implementation, for the report.", on_command_line=False),
    Option("version", "Version of the implementation, for the report.", on_command_line=False),
    Option("contact", "Contact for the implementation, for the report. Repeatable.", kind="list", default=(),
           on_command_line=False),
)  # fmt: skip

_GROUPS: Mapping[str, tuple[Option, ...]] = {
    "Implementation": _JUDGED,
    "Cluster": _CLUSTER,
    "Selection": _SELECTION,
    "Execution": _EXECUTION,
    "Output": _OUTPUT,
}

OPTIONS: tuple[Option, ...] = tuple(replace(each, group=group) for group, some in _GROUPS.items() for each in some)

BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}


def read_options_file(path: str) -> dict[str, Any]:
    """Read a YAML file that maps option names to values. Raises `UsageError` with the file and the error."""
    from harness.model import strict_yaml

    where = f"options file {shown(path)}"
    loaded = strict_yaml.read(path, what="options file")
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise UsageError(f"{where}: expected a mapping of option names to values, not {type(loaded).__name__}")
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
    """Combine all sources into settings. In `given` and `ini`, None and () mean "not set". Raises `UsageError`."""
    values, places = _gather(OPTIONS, given, environment=environment, options_file=options_file, ini=ini)
    values["backend"] = values["backend"] or backend
    _refuse_unused(values, places)
    values["proxy"] = values["proxy"] or ChosenProxy(INSTALLED if values["backend"] in REAL_CLUSTERS else REFERENCE)
    if values["generate"] and values["replay"]:
        raise UsageError(f"{places['replay']}: --generate and --replay cannot be combined")
    for one, others in (("quick", ("run-test", "generate", "replay")), ("shard", ("quick", "generate", "replay"))):
        for option in [BY_NAME[name] for name in others if values[one] and values[BY_NAME[name].key]]:
            raise UsageError(f"{places[option.key]}: --{one} selects the requirements itself: omit one of the options")
    _claim(values)
    if values["seed"] is None:
        values["seed"] = int.from_bytes(os.urandom(4)) if values["generate"] else DEFAULT_SEED
    return Settings(**_without_none(values), given=tuple(places))


def by_name(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert keys of option values (kind_image) to names (kind-image), which `resolve` expects."""
    return {key.replace("_", "-"): value for key, value in values.items()}


def resolve_some(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of only the given options, by key, for commands other than `run`. Raises `UsageError`."""
    named = by_name(given)
    values, _ = _gather([BY_NAME[name] for name in named], named)
    return _without_none(values)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: "" if value is None else value for key, value in values.items()}


def _gather(
    options: Iterable[Option],
    given: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    options_file: str = "",
    ini: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the option values by key, and the source of each value that is not a default."""
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
                values[option.key], places[option.key] = option.convert(value, place), place
                break
        else:
            values[option.key] = option.default
    return values, places


def _refuse_unused(values: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Reject options that this backend ignores, because the run would differ from the user's request."""
    backend = values["backend"]
    for option in OPTIONS:
        unused = backend and option.backends and backend not in option.backends
        if unused and option.key in places and values[option.key] is not False:
            others = " or ".join(option.backends)
            raise UsageError(f"{places[option.key]}: --backend {backend} does not support it; --backend {others} does")


def _claim(values: dict[str, Any]) -> None:
    """Set the default claims of control plane, proxy and DNS server for options that were not given."""
    given = {key for key, value in values.items() if value} - {"exempt_features"}
    given |= {"exempt_features"} if values["all_features"] else set()
    supported = values["supported_features"]
    # The claims of the control plane are first, because they set the proxy's version. Errors name a proxy before a DNS
    # server.
    for claim in (
        choice.control_plane_claims,
        controller_claims,
        lambda known: {"follow": "kep", "judges": PACKETS, **proxy_claims(known)},
        dns_claims,
    ):
        claims = claim(values)
        claims["exempt_features"] = tuple(each for each in claims.get("exempt_features", ()) if each not in supported)
        for key, value in claims.items():
            if key not in given:
                both = isinstance(value, tuple)
                values[key] = tuple(dict.fromkeys((*(values[key] or ()), *value))) if both else values[key] or value


def _refuse_unknown_variables(environment: Mapping[str, str]) -> None:
    known = {option.environment for option in OPTIONS} | {ENVIRONMENT_PREFIX + each for each in _OF_COMMANDS}
    for name in environment:
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            raise UsageError(unknown_name(name, sorted(known), "environment variable"))
