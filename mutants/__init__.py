"""Implementations that are wrong on purpose, and odd ones that are right: they test the suite itself.

`trafficdist run --mutant NAME` runs the suite on one of them. They are made from the reference, by the parts that its
components let one replace.
"""

from __future__ import annotations

from collections.abc import Mapping

from mutants import (
    affinity,
    api_servers,
    benign,
    benign_answers,
    benign_api_servers,
    benign_connections,
    benign_controllers,
    benign_data_planes,
    benign_dns,
    benign_watches,
    cluster_dns,
    conditions,
    controller_situations,
    controllers,
    cpu_events,
    cpu_hints,
    cpu_situations,
    data_planes,
    decisions,
    endings,
    families,
    field_hints,
    frozen,
    health,
    heuristics,
    interactions,
    late_faults,
    live_changes,
    live_slices,
    metrics,
    missed_changes,
    narrow_proxies,
    node_level,
    overload,
    pod_locators,
    proxies,
    proxy_hints,
    proxy_policies,
    reads,
    releases,
    restarts,
    shares,
    situated_proxies,
    situations,
    succession,
    topology_keys,
)
from mutants.mutant import Mutant

__all__ = ["BENIGN", "MUTANTS", "Mutant"]


def _by_name(*groups: list[Mutant]) -> Mapping[str, Mutant]:
    found = {each.name: each for group in groups for each in group}
    assert len(found) == sum(map(len, groups)), "every mutant has a name of its own"
    return found


MUTANTS: Mapping[str, Mutant] = _by_name(
    proxy_hints.MUTANTS,
    proxy_policies.MUTANTS,
    decisions.MUTANTS,
    shares.MUTANTS,
    proxies.MUTANTS,
    data_planes.MUTANTS,
    field_hints.MUTANTS,
    controllers.MUTANTS,
    controller_situations.MUTANTS,
    late_faults.MUTANTS,
    cpu_hints.MUTANTS,
    cpu_events.MUTANTS,
    cpu_situations.MUTANTS,
    api_servers.MUTANTS,
    overload.MUTANTS,
    releases.MUTANTS,
    restarts.MUTANTS,
    succession.MUTANTS,
    metrics.MUTANTS,
    health.MUTANTS,
    conditions.MUTANTS,
    heuristics.MUTANTS,
    affinity.MUTANTS,
    interactions.MUTANTS,
    frozen.MUTANTS,
    pod_locators.MUTANTS,
    cluster_dns.MUTANTS,
    topology_keys.MUTANTS,
    node_level.MUTANTS,
    live_changes.MUTANTS,
    live_slices.MUTANTS,
    missed_changes.MUTANTS,
    situations.MUTANTS,
    endings.MUTANTS,
    situated_proxies.MUTANTS,
    narrow_proxies.MUTANTS,
    reads.MUTANTS,
)
"""Each has one fault, and at least one requirement fails for it."""

BENIGN: Mapping[str, Mutant] = _by_name(
    benign.BENIGN,
    benign_answers.BENIGN,
    benign_connections.BENIGN,
    benign_data_planes.BENIGN,
    benign_watches.BENIGN,
    benign_controllers.BENIGN,
    benign_api_servers.BENIGN,
    benign_dns.BENIGN,
    families.FAMILIES,
)
"""Each is right, and no requirement fails for it but those that it names, and goals that it does not share."""
