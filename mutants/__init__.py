"""Mutants (implementations with one fault) and benign variants (unusual but correct ones), which test the suite itself.

`trafficdist run --mutant NAME` runs the suite against one mutant or variant. Each replaces parts of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping

from mutants import (
    affinity,
    api_servers,
    benign_api_servers,
    benign_connections,
    benign_controllers,
    benign_data_planes,
    benign_dns,
    benign_proxies,
    benign_refusals,
    benign_watches,
    combined_conditions,
    controller_edge_cases,
    controllers,
    cpu_events,
    cpu_hint_edge_cases,
    cpu_hints,
    crashes,
    data_planes,
    decision_edge_cases,
    delayed_faults,
    dns_servers,
    duplicate_addresses,
    extra_reads,
    health_checks,
    live_changes,
    load_balancing,
    many_objects,
    missed_changes,
    node_level_topology,
    node_port_allocation,
    object_lifetimes,
    other_implementations,
    overload,
    partial_reads,
    pod_locators,
    pod_states,
    prefixed_values,
    proxies,
    proxy_edge_cases,
    proxy_hints,
    proxy_locators,
    proxy_policies,
    random_events,
    random_values,
    restarts,
    service_conditions,
    slice_metadata,
    slice_updates,
    stale_fields,
    stale_services,
    storage_versions,
    topology_keys,
    traffic_distribution,
    trigger_times,
    wrong_decisions,
    wrong_metrics,
    wrong_releases,
)
from mutants.mutant import Mutant

__all__ = ["BENIGN", "MUTANTS", "Mutant"]


def _by_name(*groups: list[Mutant]) -> Mapping[str, Mutant]:
    found = {each.name: each for group in groups for each in group}
    assert len(found) == sum(map(len, groups)), "every mutant needs a unique name"
    return found


MUTANTS: Mapping[str, Mutant] = _by_name(
    proxy_hints.MUTANTS,
    proxy_policies.MUTANTS,
    wrong_decisions.MUTANTS,
    load_balancing.MUTANTS,
    proxies.MUTANTS,
    data_planes.MUTANTS,
    traffic_distribution.MUTANTS,
    controllers.MUTANTS,
    controller_edge_cases.MUTANTS,
    pod_states.MUTANTS,
    slice_metadata.MUTANTS,
    delayed_faults.MUTANTS,
    cpu_hints.MUTANTS,
    cpu_events.MUTANTS,
    cpu_hint_edge_cases.MUTANTS,
    api_servers.MUTANTS,
    node_port_allocation.MUTANTS,
    overload.MUTANTS,
    wrong_releases.MUTANTS,
    restarts.MUTANTS,
    storage_versions.MUTANTS,
    wrong_metrics.MUTANTS,
    trigger_times.MUTANTS,
    health_checks.MUTANTS,
    service_conditions.MUTANTS,
    prefixed_values.MUTANTS,
    affinity.MUTANTS,
    combined_conditions.MUTANTS,
    stale_fields.MUTANTS,
    pod_locators.MUTANTS,
    dns_servers.MUTANTS,
    topology_keys.MUTANTS,
    proxy_locators.MUTANTS,
    node_level_topology.MUTANTS,
    live_changes.MUTANTS,
    slice_updates.MUTANTS,
    object_lifetimes.MUTANTS,
    missed_changes.MUTANTS,
    decision_edge_cases.MUTANTS,
    crashes.MUTANTS,
    proxy_edge_cases.MUTANTS,
    duplicate_addresses.MUTANTS,
    stale_services.MUTANTS,
    partial_reads.MUTANTS,
    extra_reads.MUTANTS,
    random_events.MUTANTS,
    random_values.MUTANTS,
    many_objects.MUTANTS,
)
"""Each mutant has one fault, and fails at least one requirement."""

BENIGN: Mapping[str, Mutant] = _by_name(
    benign_proxies.BENIGN,
    benign_refusals.BENIGN,
    benign_connections.BENIGN,
    benign_data_planes.BENIGN,
    benign_watches.BENIGN,
    benign_controllers.BENIGN,
    benign_api_servers.BENIGN,
    benign_dns.BENIGN,
    other_implementations.FAMILIES,
)
"""Each variant is correct, and fails only the requirements that it lists as unmet."""
