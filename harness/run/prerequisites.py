"""Check the prerequisites of a run, such as the judged program and the requirements of its recipe."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.api.client import Api, RefusedError
from harness.api.connection import find
from harness.backends.any_cluster import target
from harness.backends.containers.reachability import choose
from harness.checks import program_requirements
from harness.checks.check import Check, CheckState, Finding, examine, unknown, unusable
from harness.checks.cluster import NODES, SERVER, CheckedNodes, CheckedServer, gate_version
from harness.checks.machine import MACHINE
from harness.control_planes.embedded import features_of
from harness.errors import DistrustError, InconclusiveError, UnavailableError, UsageError
from harness.guest import errors, permissions
from harness.guest.preflight import ReachedServer, reach
from harness.model.release import Release
from harness.netns.process import search_path
from harness.recipes.recipe import OF_CONTROLLER, OF_DNS, OF_PROXY, Recipe, read_recipe
from harness.settings.claims import REFERENCE
from harness.settings.implementations import control_plane_of, of_settings
from harness.settings.settings import Settings

if TYPE_CHECKING:
    from harness.backends.kind.checks import KindTools

_REQUEST_SECONDS = 15.0


def examine_run(settings: Settings) -> list[Finding]:
    if settings.backend == "kubeconfig":
        return examine_cluster(settings)
    if settings.backend == "kind":
        return examine(KIND, settings)
    return [*examine(MACHINE, settings.families), *examine(IMPLEMENTATION, settings)]


def examine_cluster(settings: Settings) -> list[Finding]:
    """Return the findings about a real cluster, or a single finding if its API server is unreachable."""
    rules = (*permissions.RULES, *(permissions.DISRUPTIVE if settings.allow_disruptive else ()))
    try:
        reached = reach(settings.kubeconfig, settings.context, rules=rules)
    except UnavailableError as error:
        return [replace(unusable(str(error)), name="API server")]
    api = Api(find(settings.kubeconfig, context=settings.context), timeout=_REQUEST_SECONDS)
    try:
        server = CheckedServer(api, reached, settings.release.gates)
        found = [replace(_version(reached), name="API server"), *examine(SERVER, server)]
        try:
            nodes = api.list("nodes")
        except (RefusedError, InconclusiveError, DistrustError) as error:
            return [*found, replace(unknown(f"cannot be checked: {errors.of(error)}"), name="zones and nodes")]
        names = target.match_nodes(settings.topology, nodes)
        equal = target.are_equal(settings.topology, names, nodes)
        offered = target.abilities(disruptive=settings.allow_disruptive, equal_nodes=equal)
        offered |= choose("", nodes, names.nodes).abilities
        return found + examine(NODES, CheckedNodes(server, settings.topology, nodes, names.nodes, offered))
    finally:
        api.close()


def _version(reached: ReachedServer) -> Finding:
    """Check that the suite's requirements cover the version of the API server."""
    server = f"{reached.version.get('gitVersion')} at {reached.server}, as {reached.user}"
    try:
        features_of(Release("{}.{}".format(*gate_version(reached.version))))
    except UsageError as error:
        return unknown(f"{server}; {error}", "the run assumes the nearest known version")
    return Finding(CheckState.OK, server)


def _control_plane(settings: Settings) -> Iterator[str]:
    if settings.components.real and not settings.components.file:
        control_plane_of(settings)
        yield f"{settings.control_plane}: all programs are installed"


def _dns(settings: Settings) -> list[Finding]:
    return _recipe("DNS server", read_recipe(settings.dns, OF_DNS)) if settings.dns != REFERENCE else []


def _controller(settings: Settings) -> list[Finding]:
    file = settings.components.file
    return _recipe("controller", read_recipe(file, OF_CONTROLLER)) if file else []


def _proxy(settings: Settings) -> Iterator[str | Finding]:
    if settings.proxy.file:
        yield from _recipe("proxy", read_recipe(settings.proxy.file, OF_PROXY))
    elif settings.proxy.kind != REFERENCE:
        of_settings(settings)
        yield f"{settings.proxy}, with everything that {settings.mode} mode needs"


def _recipe(name: str, recipe: Recipe) -> list[Finding]:
    found = [_program(recipe, each.command[0]) for each in (*recipe.cluster_programs, *recipe.programs)]
    missing = program_requirements.missing(recipe.needs)
    states = {each: CheckState.UNUSABLE if each in missing else CheckState.OK for each in recipe.needs}
    return found + [
        Finding(state, missing.get(each, "is here"), name=f"{name}: {each}") for each, state in states.items()
    ]


def _program(recipe: Recipe, command: str) -> Finding:
    path = shutil.which(command, path=search_path())
    if path is None:
        fix = "install it, or set its path in key command (CoreDNS: components fetch coredns --from source)"
        return unusable(f"{recipe.name}: program {command} is not installed", fix)
    return Finding(CheckState.OK, f"{recipe.name} {recipe.version}".rstrip() + f": {path}")


def _kind(settings: Settings) -> Iterator[str | Finding]:
    from harness.backends.kind import checks, config  # noqa: PLC0415  only for --backend kind

    mode = config.WITHOUT_PROXY if settings.proxy.file else settings.mode
    wanted = config.KindConfig(
        settings.topology,
        mode="iptables" if mode in ("", "default") else mode,
        images=config.parse_images(settings.kind_image),
    )
    tools = checks.require(wanted)
    yield f"kind {tools.kind_version} ({tools.kind}), {tools.engine.name} {tools.facts.version}"
    yield from (replace(unknown(each), name="resources") for each in tools.notes)
    if settings.proxy.file:
        yield from _installed(tools, read_recipe(settings.proxy.file, OF_PROXY))


def _installed(tools: "KindTools", recipe: Recipe) -> Iterator[Finding]:
    from harness.backends.kind.installer import images_of, require_images  # noqa: PLC0415

    assert recipe.installation is not None
    name = "proxy: images"
    try:
        require_images(tools, recipe)
        yield Finding(CheckState.OK, f"{recipe.name}: all images in key kind.images are available", name=name)
    except UnavailableError as error:
        yield replace(unusable(str(error)), name=name)
    other = dict.fromkeys(each for each in images_of(recipe) if each not in recipe.installation.images)
    if absent := [each for each in other if not tools.engine.has_image(each)]:
        yield replace(unknown(f"{', '.join(absent)}: not in {tools.engine.name}; the nodes pull them"), name=name)
    for each in recipe.installation.install[:1]:
        yield replace(_program(recipe, each), name="proxy: install")


IMPLEMENTATION: tuple[Check[Settings], ...] = (
    Check("control plane", _control_plane),
    Check("DNS server", _dns),
    Check("controller", _controller),
    Check("proxy", _proxy),
)
"""Checks of the programs that --backend netns starts. The reference needs no checks."""

KIND: tuple[Check[Settings], ...] = (Check("kind", _kind),)
