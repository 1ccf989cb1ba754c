"""Checks that this machine can run an embedded cluster (`netns`), or make a kind cluster (`kind`)."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.doctor.check import Check, CheckState, ok, unknown, unusable
from harness.errors import UnavailableError
from harness.netns import kernel, needs, programs, sandbox
from harness.netns.addresses import FAMILIES
from harness.netns.namespace import Namespace
from harness.netns.process import search_path
from harness.recipes import cni
from harness.recipes.filling import fill
from harness.recipes.recipe import OF_CONTROLLER, OF_DNS, OF_PROXY, Recipe, read_recipe
from harness.settings.claims import OF_BOTH_FAMILIES, REFERENCE
from harness.settings.implementations import control_plane_of, of_settings
from harness.settings.settings import Settings

if TYPE_CHECKING:
    from harness.backends.kind.checks import Tools

ANY_VALUE: Mapping[str, str] = defaultdict(lambda: "x")
"""Values for all placeholders, where what they stand for does not matter."""


def examine_netns(families: Sequence[str] = FAMILIES) -> list[Check]:
    """Check network namespaces as this user, and the features of the kernel, by trying each."""
    try:
        sandbox.enter()
    except UnavailableError as error:
        return [unusable("network namespaces", str(error))]
    found = [ok("network namespaces", "this user can make them")]
    try:
        absent = kernel.missing()
    except UnavailableError as error:
        return [*found, unusable("kernel", str(error))]
    found += [_missing(each, families) for each in absent]
    if not absent:
        found.append(ok("kernel", "it has all that nodes, pods and the reference proxy need"))
    return [*found, _own_files()]


def examine_implementation(settings: Settings) -> list[Check]:
    """Check what the proxy, the DNS server and the control plane of a run need; nothing for the reference."""
    found = _control_plane(settings)
    found += examine_recipe("DNS server", read_recipe(settings.dns, OF_DNS)) if settings.dns != REFERENCE else []
    if settings.components.file:
        found += examine_recipe("controller", read_recipe(settings.components.file, OF_CONTROLLER))
    if settings.proxy.file:
        return found + examine_recipe("proxy", read_recipe(settings.proxy.file, OF_PROXY))
    if settings.proxy.kind == REFERENCE:
        return found
    try:
        of_settings(settings)
    except UnavailableError as error:
        return [*found, unusable("proxy", str(error))]
    return [*found, ok("proxy", f"{settings.proxy}, with all that mode {settings.mode} needs")]


def _control_plane(settings: Settings) -> list[Check]:
    """Check that the programs of a control plane are in the cache, or its images here."""
    if not settings.components.real or settings.components.file:
        return []
    try:
        control_plane_of(settings)
    except UnavailableError as error:
        return [unusable("control plane", str(error))]
    return [ok("control plane", f"{settings.control_plane}, all its programs are here")]


def examine_recipe(name: str, recipe: Recipe) -> list[Check]:
    """Check that each program of a recipe is there, and each thing that it requires."""
    found = [_program(name, recipe, each.command[0]) for each in (*recipe.cluster_programs, *recipe.programs)]
    if recipe.pods and recipe.pods.cni:
        found.append(_cni(f"{name}: pods", recipe, recipe.pods.cni))
    absent = needs.missing(recipe.needs)
    return found + [
        unusable(f"{name}: {each}", absent[each]) if each in absent else ok(f"{name}: {each}", "is here")
        for each in recipe.needs
    ]


def _program(name: str, recipe: Recipe, command: str) -> Check:
    place = shutil.which(command, path=search_path())
    if place is None:
        remedy = "install it, or name its path in key command (CoreDNS: components fetch coredns --from source)"
        return unusable(name, f"{recipe.name}: there is no program {command}", remedy)
    return ok(name, f"{recipe.name} {recipe.version}".rstrip() + f": {place}")


def _cni(name: str, recipe: Recipe, file: str) -> Check:
    """Check that a CNI configuration can be read, and that all its plugins are there."""
    first = recipe.programs[0]
    path = fill(dict(first.environment).get("CNI_PATH", cni.USUAL_PATH), ANY_VALUE)
    written = {f"{{folder}}/{each}": fill(text, ANY_VALUE) for each, text in first.files}
    try:
        config = cni.parse(written[file] if file in written else Path(fill(file, ANY_VALUE)).read_text("utf-8"))
    except (OSError, cni.CniError) as error:
        return unusable(name, f"the CNI configuration {file}: {error}")
    absent = [each for each in cni.programs(config) if cni.find(each, path) is None]
    if absent:
        remedy = "install them (containernetworking-plugins), or name their folder in variable CNI_PATH"
        return unusable(name, f"there is no plugin {', '.join(absent)} in {path}", remedy)
    return ok(name, f"{', '.join(cni.programs(config))} in {path}")


def _own_files() -> Check:
    """Check that a pod's programs can have an /etc/resolv.conf of their own, which names the cluster's DNS."""
    name = "files of pods"
    try:
        with contextlib.closing(Namespace.create()) as namespace:
            programs.run(namespace, [sys.executable, "-c", ""], files={"/etc/resolv.conf": ""})
    except UnavailableError as error:
        remedy = "have an /etc/resolv.conf, and let containers mount: --security-opt apparmor=unconfined"
        costs = (
            "requirements whose clients are programs with a resolv.conf of their own "
            "are not judged (one of profile dns)"
        )
        return Check(name, CheckState.LACKS, str(error), remedy, costs=costs)
    return ok(name, "programs in a pod get an /etc/resolv.conf of their own")


def examine_kind(settings: Settings) -> list[Check]:
    """Check the command kind, the container engine, resources for the nodes, and what a recipe brings to them."""
    from harness.backends.kind import checks, config  # noqa: PLC0415  only for those who ask for it

    mode = config.WITHOUT_PROXY if settings.proxy.file else settings.mode
    wanted = config.KindConfig(
        settings.topology,
        mode="iptables" if mode in ("", "default") else mode,
        images=config.parse_images(settings.kind_image),
    )
    try:
        tools = checks.require(wanted)
    except UnavailableError as error:
        return [unusable("kind", str(error))]
    said = f"kind {tools.kind_version} ({tools.kind}), {tools.engine.name} {tools.facts.version}"
    found = [ok("kind", said), *(unknown("room", each) for each in tools.notes)]
    return found + (_brought(tools, read_recipe(settings.proxy.file, OF_PROXY)) if settings.proxy.file else [])


def _brought(tools: Tools, recipe: Recipe) -> list[Check]:
    """Check that the engine has the images of a recipe, and that the program is there that installs it."""
    from harness.backends.kind.installer import images_of, require_images  # noqa: PLC0415

    assert recipe.installation is not None
    try:
        require_images(tools, recipe)
        found = [ok("proxy: images", f"{recipe.name}: all that key kind.images names are here")]
    except UnavailableError as error:
        found = [unusable("proxy: images", str(error))]
    named = [each for each in images_of(recipe) if each not in recipe.installation.images]
    absent = [each for each in dict.fromkeys(named) if not tools.engine.has_image(each)]
    if absent:
        found.append(unknown("proxy: images", f"{', '.join(absent)}: {tools.engine.name} has none, nodes pull them"))
    command = recipe.installation.install[:1]
    return found + [_program("proxy: install", recipe, each) for each in command]


def _missing(feature: kernel.KernelFeature, families: Sequence[str]) -> Check:
    said = kernel.explain([feature])
    if feature == kernel.IPV6 and tuple(families) != ("IPv6",):
        return Check("kernel", CheckState.LACKS, said, "--families IPv4 runs without it", features=OF_BOTH_FAMILIES)
    return unusable("kernel", said)
