"""Checks that this machine can run an embedded cluster (`netns`), or make a kind cluster (`kind`)."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Sequence

from harness.doctor.check import Check, CheckState, ok, unknown, unusable
from harness.errors import UnavailableError
from harness.model.topology import Topology
from harness.netns import kernel, programs, sandbox
from harness.netns.addresses import FAMILIES
from harness.netns.namespace import Namespace
from harness.netns.process import search_path
from harness.recipes.recipe import OF_DNS, read_recipe
from harness.settings.claims import OF_BOTH_FAMILIES, REFERENCE


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


def examine_dns(dns: str) -> list[Check]:
    """Check that the program of a DNS server's recipe is there; nothing for the reference."""
    if dns == REFERENCE:
        return []
    recipe = read_recipe(dns, OF_DNS)
    command = recipe.command[0]
    found = shutil.which(command, path=search_path())
    if found is None:
        remedy = "install it, or name its path in key command (CoreDNS: components fetch coredns --from source)"
        return [unusable("DNS server", f"{recipe.name}: there is no program {command}", remedy)]
    return [ok("DNS server", f"{recipe.name} {recipe.version}".rstrip() + f": {found}")]


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


def examine_kind(topology: Topology) -> list[Check]:
    """Check the command kind, the container engine, and resources for the nodes."""
    from harness.backends.kind import checks  # noqa: PLC0415  only for those who ask for it
    from harness.backends.kind.config import KindConfig  # noqa: PLC0415

    try:
        tools = checks.require(KindConfig(topology))
    except UnavailableError as error:
        return [unusable("kind", str(error))]
    said = f"kind {tools.kind_version} ({tools.kind}), {tools.engine.name} {tools.facts.version}"
    return [ok("kind", said), *(unknown("room", each) for each in tools.notes)]


def _missing(feature: kernel.KernelFeature, families: Sequence[str]) -> Check:
    said = kernel.explain([feature])
    if feature == kernel.IPV6 and tuple(families) != ("IPv6",):
        return Check("kernel", CheckState.LACKS, said, "--families IPv4 runs without it", features=OF_BOTH_FAMILIES)
    return unusable("kernel", said)
