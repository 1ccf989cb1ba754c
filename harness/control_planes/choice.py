"""Parses --control-plane and --controller together, and derives the defaults of other options from them. An explicit
option overrides the derived default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import UnavailableError, UsageError
from harness.model.release import API_SERVER, CONTROLLER, parse_gates
from harness.model.release_features import lacking
from harness.model.requirements import Profile

EMBEDDED, BINARIES, CONTAINERS = "embedded", "binaries", "containers"
REFERENCE, MANAGER, RECIPE = "reference", "kube-controller-manager", "recipe"
RECIPE_FILES = (".yaml", ".yml", ".json")  # file name extensions of recipes

CONVERGES_WITHIN = 10.0  # seconds in which kube-controller-manager processes a change with the harness's configuration

_NEWEST = (1, 1000)
_CONTROLLER_HAS = (
    "ControllerMetrics",
    "ControllerReleases",
    "DualStack",
    "EndpointLocations",
    "MinimalAPICalls",
    "SyncEvents",
    "TopologyMode",
    "TopologyModeEvents",
)
_CLUSTER_HAS = ("Outage", "Rollout", "TopologyModeRouting", "VersionSkew")  # for a run of the profile `cluster`
_API_SERVER_HAS = ("APIServerReleases", "DeprecationWarnings", "NodePortAllocation", "OpenAPI")


@dataclass(frozen=True, slots=True)
class ControlPlaneChoice:
    """The kinds and versions ("": latest installed) of the control plane and controller. `file` is a recipe's path."""

    plane: str
    controller: str
    version: str = ""
    controller_version: str = ""
    file: str = ""

    @property
    def real(self) -> bool:
        """True if the control plane or the controller is not the reference implementation."""
        return self.controller != REFERENCE


def parse_plane(text: str) -> tuple[str, str]:
    """Parse a value of --control-plane into kind and version. Raises `UsageError`."""
    kind, sign, version = text.partition(":")
    if kind == EMBEDDED and not sign:
        return kind, ""
    if kind in (BINARIES, CONTAINERS) and version:
        _check_version(version)
        return kind, version
    raise UsageError(
        f"unknown control plane {text!r}; allowed: {EMBEDDED}, {BINARIES}:VERSION, {CONTAINERS}:VERSION, as in "
        f"{BINARIES}:1.37"
    )


def parse_controller(text: str) -> tuple[str, str]:
    """Parse a value of --controller into kind and version. Raises `UsageError`."""
    kind, sign, version = text.partition(":")
    if kind == REFERENCE and not sign:
        return kind, ""
    if kind == MANAGER and (version or not sign):
        _check_version(version)
        return kind, version
    if text.endswith(RECIPE_FILES):
        return RECIPE, ""
    raise UsageError(
        f"unknown controller {text!r}; allowed: {REFERENCE}, {MANAGER}, {MANAGER}:VERSION, or a file whose name ends "
        "in .yaml"
    )


def choose(plane: str, controller: str) -> ControlPlaneChoice:
    """Combine --control-plane and --controller ("": not given). Raises `UsageError` if they contradict each other."""
    kind, version = parse_plane(plane or EMBEDDED)
    usual = REFERENCE if kind == EMBEDDED else MANAGER
    asked, controller_version = parse_controller(controller or usual)
    if kind != EMBEDDED and asked == REFERENCE:
        raise UsageError(
            f"--controller {REFERENCE} runs in the process of the embedded API server, so it cannot be "
            f"combined with --control-plane {plane}"
        )
    if kind != EMBEDDED and asked == RECIPE:
        raise UsageError(f"--controller {controller} runs with the embedded API server: omit --control-plane")
    return ControlPlaneChoice(kind, asked, version, controller_version, controller if asked == RECIPE else "")


def control_plane_claims(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of other options that follow from the control plane in `values`. Raises `UsageError`."""
    choice = choose(values["control_plane"] or "", values["controller"] or "")
    if not choice.real:
        return {}
    if values["mutant"]:
        raise UsageError("--mutant selects a fault in the reference, not in another controller or API server")
    if choice.file:
        return {}
    asked = values["kubernetes_version"] or ""
    if choice.version and asked and _series(asked) != _series(choice.version):
        raise UsageError(
            f"--kubernetes-version {asked} applies to the reference, but --control-plane {choice.plane} has version "
            f"{choice.version}: omit --kubernetes-version; scenarios of profile {Profile.CLUSTER} can change versions"
        )
    gates = parse_gates(values["feature_gates"])
    installed = choice.plane != CONTAINERS
    named = choice.controller_version or choice.version or asked
    named = _exact(MANAGER, named) if installed else named
    lacks = lacking(_minor(named), gates, CONTROLLER)
    claims = _claims(Profile.ENDPOINTSLICE_CONTROLLER, MANAGER, named, _CONTROLLER_HAS, lacks)
    claims["converges_within"] = CONVERGES_WITHIN
    if choice.plane != EMBEDDED:
        named = _exact("kube-apiserver", choice.version) if installed else choice.version
        lacks = lacking(_minor(named), gates, API_SERVER)
        more = _claims(Profile.API_SERVER, "Kubernetes", named, (*_API_SERVER_HAS, *_CLUSTER_HAS), lacks)
        claims |= {key: _both(claims[key], value) for key, value in more.items()}
    versions = {"kubernetes_version": choice.version} if choice.version else {}
    return {**claims, **versions, "follow": "released", "organization": "The Kubernetes authors",
            "url": "https://kubernetes.io"}  # fmt: skip


def _exact(component: str, version: str) -> str:
    """Return the version of the binary that a run will use. A missing binary is reported when the component starts."""
    from harness.binaries import find_entry  # noqa: PLC0415  only where there is one to look for

    try:
        return find_entry(component, version).version.tag
    except UnavailableError:
        return version


def _claims(profile: Profile, project: str, version: str, has: Sequence[str], lacks: Sequence[str]) -> dict[str, Any]:
    return {
        "profile": (profile.value,),
        "supported_features": tuple(each for each in has if each not in lacks),
        "exempt_features": lacks,
        "project": project,
        "version": version,
    }


def _both(one: Any, other: Any) -> Any:
    return (*one, *other) if isinstance(one, tuple) else other


def _minor(version: str) -> str:
    return "{}.{}".format(*_series(version)) if version else ""


def _series(version: str) -> tuple[int, int]:
    from harness.binaries.versions import parse_wanted  # noqa: PLC0415  only where there is one

    wanted = parse_wanted(version)
    if wanted.exact is not None:
        return wanted.exact.major, wanted.exact.minor
    major, minor = wanted.series.split(".") if wanted.series else _NEWEST
    return int(major), int(minor)


def _check_version(version: str) -> None:
    if version:
        _series(version)
