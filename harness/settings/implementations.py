"""Create the implementation under test from settings: control plane, proxy and DNS server."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.backends.implementation import Implementation, reference
from harness.control_planes.choice import CONTAINERS, EMBEDDED, MANAGER
from harness.errors import UsageError
from harness.settings.claims import KUBE_PROXY, RECIPE, REFERENCE
from harness.settings.mutants import ReferenceVariant, mutants
from harness.settings.settings import Settings

if TYPE_CHECKING:
    from harness.control_planes.control_plane import MakeControlPlane
    from harness.dns.dns import MakeDns
    from harness.proxies.proxy import MakeProxy
    from harness.recipes.recipe import Recipe, RecipeKind


def of_settings(settings: Settings, *, runs_controller: bool = False) -> Implementation:
    """Return the implementation. Raises `UsageError` or `UnavailableError`.

    `runs_controller` means that the caller itself runs a mutant's controller with a real control plane.
    """
    if settings.mutant:
        fault = mutants()[settings.mutant]
        faulty = reference(fault)
        if not settings.components.real:
            return faulty
        _require_own_parts(fault, settings, runs_controller=runs_controller)
        return replace(faulty, control_plane=control_plane_of(settings))
    control_plane, dns = control_plane_of(settings), _dns_of(settings)
    proxy, services = _proxy_of(settings)
    return Implementation(control_plane, proxy, dns, services)


def _require_own_parts(fault: ReferenceVariant, settings: Settings, *, runs_controller: bool) -> None:
    if elsewhere := fault.changes & {"api_server", "kinds"}:
        raise UsageError(
            f"--mutant {fault.name} is a fault in {' and '.join(sorted(elsewhere))}, which --control-plane "
            f"{settings.control_plane} replaces: omit --control-plane"
        )
    if "controller" in fault.changes and not runs_controller:
        raise UsageError(f"--mutant {fault.name} is a fault in the EndpointSlice controller: omit --controller")


def control_plane_of(settings: Settings) -> "MakeControlPlane":
    chosen = settings.components
    if not chosen.real:
        return reference().control_plane
    if chosen.file:
        return _controller_of(chosen.file)
    controller = (MANAGER, chosen.controller_version or chosen.version or settings.kubernetes_version)
    needed = [controller, *(() if chosen.plane == EMBEDDED else (("etcd", ""), ("kube-apiserver", chosen.version)))]
    if chosen.plane == CONTAINERS:
        from harness.model.package_extras import require

        require("docker", "testcontainers", extra="containers", feature="--control-plane containers")
        from harness.control_planes import containers

        containers.check(needed)
        return lambda release: containers.ContainerControlPlane(release, controller=chosen.controller_version)
    from harness.binaries import find

    for component, version in needed:
        find(component, version)
    if chosen.plane == EMBEDDED:
        from harness.control_planes.hybrid import HybridControlPlane

        return lambda release: HybridControlPlane(release, version=chosen.controller_version)
    from harness.control_planes.binaries import BinaryControlPlane

    return lambda release: BinaryControlPlane(release, controller=chosen.controller_version)


def _recipe(file: str, kind: "RecipeKind") -> "Recipe":
    from harness.checks import program_requirements
    from harness.recipes.recipe import read_recipe

    recipe = read_recipe(file, kind)
    program_requirements.require(recipe.needs, f"{recipe.name} ({file})")
    return recipe


def _controller_of(file: str) -> "MakeControlPlane":
    from harness.recipes.controller import RecipeControlPlane
    from harness.recipes.recipe import OF_CONTROLLER

    recipe = _recipe(file, OF_CONTROLLER)
    return lambda release: RecipeControlPlane(release, recipe)


def _proxy_of(settings: Settings) -> "tuple[MakeProxy, Mapping[str, Any]]":
    """Return the proxy factory, and the fields that the proxy requires in Services."""
    chosen = settings.proxy
    if chosen.kind == RECIPE:
        from harness.proxies.executable import ExecutableProxy
        from harness.recipes.recipe import OF_PROXY

        recipe = _recipe(chosen.file, OF_PROXY)
        mode, services = settings.mode, recipe.services
        return lambda plane, pod_cidrs: ExecutableProxy(plane, recipe, pod_cidrs=pod_cidrs, mode=mode), services
    if chosen.kind == KUBE_PROXY:
        from harness.binaries import find_entry
        from harness.proxies.kube_proxy import KubeProxy, require

        asked = chosen.version or settings.kubernetes_version
        require(settings.mode, find_entry(KUBE_PROXY, asked).version)
        given = {"mode": settings.mode, "version": asked, "booted": settings.kubernetes_version}
        return lambda plane, pod_cidrs: KubeProxy(plane, pod_cidrs=pod_cidrs, **given), {}
    return reference().proxy, {}


def _dns_of(settings: Settings) -> "MakeDns":
    if settings.dns == REFERENCE:
        return reference().dns
    from harness.dns.executable import ExecutableDns
    from harness.recipes.recipe import OF_DNS

    recipe = _recipe(settings.dns, OF_DNS)
    return lambda plane: ExecutableDns(plane, recipe)
