"""The default claims of an implementation: features, profile, mode, and whether it follows KEPs or releases."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.control_planes.choice import RECIPE_FILES, choose
from harness.errors import UnavailableError, UsageError
from harness.model import release_features
from harness.model.cluster_options import NO_CNI
from harness.model.files import shown
from harness.model.release import PROXY, parse_gates

if TYPE_CHECKING:  # `trafficdist --help` must not wait for these imports
    from harness.binaries.versions import Version
    from harness.recipes.recipe import Recipe

REFERENCE, KUBE_PROXY, INSTALLED, RECIPE = "reference", "kube-proxy", "installed", "recipe"

REAL_CLUSTERS = ("kubeconfig", "kind")  # backends whose clusters include a control plane and a proxy

MODES: Mapping[str, tuple[str, ...]] = {REFERENCE: ("nftables",), KUBE_PROXY: ("nftables", "iptables", "ipvs")}
"""The kernel mechanisms that proxies program, the default first. Reports contain the chosen mechanism as `mode`."""

CONVERGES_WITHIN = 5.0
"""The time in s within which the reference and kube-proxy, as configured here, apply a change. No KEP sets it."""

_KUBE_PROXY_HAS = (
    "AffinityRenewal", "ClientAddress", "DropOrReject", "EvenShares", "ExternalIPs", "Hairpin", "HealthCheckNodePort",
    "HintsOnAnyService", "IPv6", "IPv6NodePorts", "LoadBalancer", "LoadBalancerIPMode", "LoadBalancerSourceRanges",
    "NodeHints", "NodeNames", "OpenConnections", "ProxyHealth", "ProxyMetrics", "ServiceProxyName", "SessionAffinity",
    "UDPFlows",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChosenProxy:
    """The proxy selected by --proxy: its kind, and either the version of kube-proxy or the file of a recipe."""

    kind: str
    version: str = ""
    file: str = ""

    def __str__(self) -> str:
        return self.file or (f"{self.kind}:{self.version}" if self.version else self.kind)


def check_dns(text: str) -> str:
    if text != REFERENCE and not text.endswith(RECIPE_FILES):
        raise UsageError(f"unknown DNS server {text!r}; allowed: {REFERENCE}, or a file whose name ends in .yaml")
    return text


def parse_proxy(text: str) -> ChosenProxy:
    if text.endswith(RECIPE_FILES):
        return ChosenProxy(RECIPE, file=text)
    kind, sign, version = text.partition(":")
    if (kind == KUBE_PROXY and (version or not sign)) or (kind in (REFERENCE, INSTALLED) and not sign):
        return ChosenProxy(kind, version)
    raise UsageError(
        f"unknown proxy {text!r}; allowed: {REFERENCE}, {KUBE_PROXY}, {KUBE_PROXY}:VERSION, {INSTALLED}, "
        "or a file whose name ends in .yaml"
    )


def proxy_claims(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default claims for the proxy. Raises `UsageError` for options that cannot be combined."""
    proxy: ChosenProxy = values["proxy"]
    kind, gates = proxy.kind, parse_gates(values["feature_gates"])
    if kind != REFERENCE and values["mutant"]:
        raise UsageError(f"--mutant selects a fault in the reference: it cannot be combined with --proxy {proxy}")
    backend, of_kind = values["backend"], values["backend"] == "kind"
    if backend in REAL_CLUSTERS and kind != INSTALLED and not (of_kind and kind == RECIPE):
        raise UsageError(
            f"--proxy {proxy}: a cluster of --backend {backend} has its own proxy: use --proxy {INSTALLED}, or omit "
            "--proxy; --backend kind also accepts a recipe with the key kind"
        )
    if backend not in REAL_CLUSTERS and kind == INSTALLED:
        raise UsageError(
            f"--proxy {INSTALLED} judges the proxy of a real cluster, and nodes of --backend netns have none: use "
            f"--proxy {REFERENCE}, {KUBE_PROXY} or a file"
        )
    if kind == INSTALLED and values["cni"] == NO_CNI:
        raise UsageError(
            f"--cni {NO_CNI}: nodes do not become ready without a network plugin, which only a recipe can provide"
        )
    if of_kind and kind == INSTALLED:
        return _of_kind(values)
    if kind == INSTALLED:
        return {"mode": values["mode"] or "default", "follow": "released", "profile": ("service-proxy",)}
    if kind == RECIPE:
        from harness.recipes import recipe as recipes  # noqa: PLC0415  slow to import

        recipe, what = recipes.read_recipe(proxy.file, recipes.OF_PROXY), f"proxy file {shown(proxy.file)}"
        if of_kind and recipe.installation is None:
            raise UsageError(f"{what}: key kind is missing: it describes the installation on a kind cluster")
        if not of_kind and not recipe.programs:
            raise UsageError(f"{what}: it has no command, only key kind: use --backend kind")
        return {
            **_of_recipe(recipe, "service-proxy"),
            "cni": recipe.installation.cni if of_kind and recipe.installation else "",
            "mode": _mode(values, recipe.modes, f"--proxy {proxy}"),
            "judges": recipe.judges,
            "follow": recipe.follows,
        }
    version, mode = proxy.version or values["kubernetes_version"] or "", _mode(values, MODES[kind], f"--proxy {kind}")
    if kind == KUBE_PROXY:
        return _of_kube_proxy(version, mode, gates)
    others = choose(values["control_plane"] or "", values["controller"] or "")
    lacks = release_features.lacking(version, gates, *((PROXY,) if others.real else ()))
    if values["mutant"]:
        from harness.settings.mutants import mutants  # noqa: PLC0415  slow to import

        lacks = (*lacks, *sorted(mutants()[values["mutant"]].lacks))
    promised = CONVERGES_WITHIN if values["dns"] == REFERENCE and not others.file else 0.0
    return {"mode": mode, "exempt_features": lacks, "converges_within": promised}


def controller_claims(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default claims for --controller FILE, by option. Raises `UsageError`."""
    file = choose(values["control_plane"] or "", values["controller"] or "").file
    if not file:
        return {}
    from harness.recipes import recipe as recipes  # noqa: PLC0415  slow to import

    recipe = recipes.read_recipe(file, recipes.OF_CONTROLLER)
    return {**_of_recipe(recipe, "endpointslice-controller"), "follow": recipe.follows}


def dns_claims(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default claims for --dns, by option. Raises `UsageError` if --mutant is also given."""
    if values["dns"] == REFERENCE:
        return {}
    if values["mutant"]:
        raise UsageError(f"--mutant selects a fault in the reference: it cannot be combined with --dns {values['dns']}")
    from harness.recipes import recipe as recipes  # noqa: PLC0415  slow to import

    recipe = recipes.read_recipe(values["dns"], recipes.OF_DNS)
    return _of_recipe(recipe, "dns")


def _of_recipe(recipe: "Recipe", profile: str) -> dict[str, Any]:
    return {
        "profile": (profile,),
        "converges_within": recipe.converges_within,
        "supported_features": recipe.supported_features,
        "exempt_features": recipe.exempt_features,
        "version": recipe.version,
        "project": recipe.name,
    }


def _mode(values: Mapping[str, Any], allowed: tuple[str, ...], who: str) -> str:
    asked = values["mode"]
    if asked and asked not in allowed:
        raise UsageError(f"--mode {asked}: {who} supports only {', '.join(allowed)}")
    return str(asked or allowed[0])


def _of_kube_proxy(version: str, mode: str, gates: Mapping[str, bool]) -> dict[str, Any]:
    from harness.binaries import find_entry  # noqa: PLC0415  slow to import

    try:
        found = find_entry(KUBE_PROXY, version).version
    except UnavailableError:  # reported again when the proxy starts
        found = None
    return _kube_proxy(found, mode, gates)


def _of_kind(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claims of kube-proxy on a kind cluster. The tag of the node image determines the version."""
    from harness.backends.kind.config import WITHOUT_PROXY, version_of_image  # noqa: PLC0415  slow to import

    if values["mode"] == WITHOUT_PROXY:
        raise UsageError(f"--mode {WITHOUT_PROXY}: a cluster without kube-proxy needs a recipe (--proxy FILE)")
    version = version_of_image(values["kind_image"] or "")
    claims = _kube_proxy(version, values["mode"] or "default", parse_gates(values["feature_gates"]))
    return {**claims, "converges_within": 2 * CONVERGES_WITHIN}  # its controller and API server need time too


def _kube_proxy(found: "Version | None", mode: str, gates: Mapping[str, bool]) -> dict[str, Any]:
    lacks = release_features.lacking(found.tag if found else "", gates, PROXY)
    return {
        "mode": mode,
        "follow": "released",
        "converges_within": CONVERGES_WITHIN,
        "profile": ("service-proxy",),
        "supported_features": tuple(each for each in _KUBE_PROXY_HAS if each not in lacks),
        "exempt_features": lacks,
        "version": found.tag if found else "",
        "organization": "The Kubernetes authors",
        "project": KUBE_PROXY,
        "url": "https://kubernetes.io",
    }
