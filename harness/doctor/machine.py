"""Looks at this machine: can it be an embedded cluster (`netns`), or can it make a kind cluster (`kind`)?"""

from __future__ import annotations

from collections.abc import Sequence

from harness.claims import OF_BOTH_FAMILIES
from harness.doctor.check import Check, State, ok, unknown, unusable
from harness.errors import UnavailableError
from harness.netns import kernel, sandbox
from harness.netns.addresses import FAMILIES
from harness.topology import Topology


def examine_netns(families: Sequence[str] = FAMILIES) -> list[Check]:
    """Network namespaces as this user, and the features of the kernel, each tried."""
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
    return found if absent else [*found, ok("kernel", "it has all that nodes, pods and the reference proxy need")]


def examine_kind(topology: Topology) -> list[Check]:
    """The command, the container engine, and room for the nodes."""
    from harness.backends.kind import checks  # noqa: PLC0415  only for those who ask for it
    from harness.backends.kind.config import Wanted  # noqa: PLC0415

    try:
        tools = checks.require(Wanted(topology))
    except UnavailableError as error:
        return [unusable("kind", str(error))]
    said = f"kind {tools.kind_version} ({tools.kind}), {tools.engine.name} {tools.facts.version}"
    return [ok("kind", said), *(unknown("room", each) for each in tools.notes)]


def _missing(feature: kernel.Feature, families: Sequence[str]) -> Check:
    said = kernel.explain([feature])
    if feature == kernel.IPV6 and tuple(families) != ("IPv6",):
        return Check("kernel", State.LACKS, said, "--families IPv4 runs without it", features=OF_BOTH_FAMILIES)
    return unusable("kernel", said)
