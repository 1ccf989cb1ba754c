"""Makes the judged implementation from settings: the control plane, the proxy and the DNS server of a cluster.

Adapters are imported only when they are used, so that their dependencies may be missing otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.backends.implementation import Implementation, reference
from harness.control_planes.choice import CONTAINERS, EMBEDDED, MANAGER
from harness.settings.claims import KUBE_PROXY, RECIPE, REFERENCE
from harness.settings.mutants import mutants
from harness.settings.settings import Settings

if TYPE_CHECKING:
    from harness.control_planes.control_plane import ControlPlane, MakeControlPlane
    from harness.dns.dns import MakeDns
    from harness.proxies.proxy import MakeProxy, Proxy


def of_settings(settings: Settings) -> Implementation:
    """Return the implementation of the settings. Raises `UsageError`, and `UnavailableError` with the remedy."""
    if settings.mutant:
        return reference(mutants()[settings.mutant])
    control_plane, dns = _control_plane_of(settings), _dns_of(settings)
    if settings.proxy.kind == RECIPE:
        proxy, services = _of_recipe(settings)
        return Implementation(control_plane, proxy, dns, services)
    return Implementation(control_plane, _proxy_of(settings), dns)


def _control_plane_of(settings: Settings) -> MakeControlPlane:
    chosen = settings.components
    if not chosen.real:
        return reference().control_plane
    if chosen.file:
        return _controller_of(chosen.file)
    controller = (MANAGER, chosen.controller_version or chosen.version or settings.kubernetes_version)
    needed = [controller, *(() if chosen.plane == EMBEDDED else (("etcd", ""), ("kube-apiserver", chosen.version)))]
    if chosen.plane == CONTAINERS:
        from harness.control_planes import containers

        containers.check(needed)
        return lambda release: containers.ContainersControlPlane(release, controller=chosen.controller_version)
    from harness.binaries import find

    for component, version in needed:
        find(component, version)
    if chosen.plane == EMBEDDED:
        from harness.control_planes.managed import ManagedControlPlane

        return lambda release: ManagedControlPlane(release, version=chosen.controller_version)
    from harness.control_planes.binaries import BinariesControlPlane

    return lambda release: BinariesControlPlane(release, controller=chosen.controller_version)


def _controller_of(file: str) -> MakeControlPlane:
    from harness.netns import needs
    from harness.recipes.controller import DescribedControlPlane
    from harness.recipes.recipe import OF_CONTROLLER, read_recipe

    recipe = read_recipe(file, OF_CONTROLLER)
    needs.require(recipe.needs, f"{recipe.name} ({file})")
    return lambda release: DescribedControlPlane(release, recipe)


def _proxy_of(settings: Settings) -> MakeProxy:
    chosen = settings.proxy
    if chosen.kind == KUBE_PROXY:
        from harness.binaries import find_entry
        from harness.proxies.kube_proxy import KubeProxy, require

        asked = chosen.version or settings.kubernetes_version
        require(settings.mode, find_entry(KUBE_PROXY, asked).version)
        return lambda plane, pod_cidrs: KubeProxy(
            plane, pod_cidrs=pod_cidrs, mode=settings.mode, version=asked, booted=settings.kubernetes_version
        )
    return reference().proxy


def _of_recipe(settings: Settings) -> tuple[MakeProxy, Mapping[str, Any]]:
    """Return the proxies of a recipe, and the fields that it wants in each Service."""
    from harness.netns import needs
    from harness.proxies.executable import ExecutableProxy
    from harness.recipes.recipe import OF_PROXY, read_recipe

    recipe = read_recipe(settings.proxy.file, OF_PROXY)
    needs.require(recipe.needs, f"{recipe.name} ({settings.proxy.file})")

    def proxy(plane: ControlPlane, pod_cidrs: Sequence[str]) -> Proxy:
        return ExecutableProxy(plane, recipe, pod_cidrs=pod_cidrs, mode=settings.mode)

    return proxy, recipe.services


def _dns_of(settings: Settings) -> MakeDns:
    if settings.dns == REFERENCE:
        return reference().dns
    from harness.dns.executable import ExecutableDns
    from harness.netns import needs
    from harness.recipes.recipe import OF_DNS, read_recipe

    recipe = read_recipe(settings.dns, OF_DNS)
    needs.require(recipe.needs, f"{recipe.name} ({settings.dns})")
    return lambda plane: ExecutableDns(plane, recipe)
