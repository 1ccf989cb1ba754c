"""A mutant fails only requirements about its fault.

The subject of a mutant is what all requirements that kill it have in common: their features. A requirement without any
of these features is about something else, so it must pass. Tables that combine many features are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from harness.model.requirements import Profile
from mutants import MUTANTS, Mutant
from mutants.dns_servers import authority_with_index
from reference.client import Key
from reference.dns import DnsServer
from reference.dns.index import ClusterIndex
from reference.dns.objects import read_endpoints
from reference.dns.records import Service
from tests.conformance import kill_checks
from tests.conformance.mutant_trials import SCENARIOS, MutantTrial, fewer_probes, time_scaled
from tests.conformance.requirement_durations import seconds

PROFILES = {"proxy": Profile.SERVICE_PROXY, "controller": Profile.ENDPOINTSLICE_CONTROLLER, "dns": Profile.DNS}
GENERAL = frozenset({"ClusterIP", "EndpointSlices", "ServiceDNS"})
"""Features of nearly all requirements of a profile."""

TABLES = ("INTERACTIONS/", "GENERATED/")
RELEASES = "ProxyReleases"
"""A feature of requirements that replace the component, and so the mutant."""

EVERYWHERE = {
    "sheds-under-load": "many scenarios send enough to overload a node",
    "prefer-close-becomes-same-node": "it is killed in a whole cluster, but changes what PreferClose means everywhere",
    "takes-hints-back": "hints of every value go",
    "domains-mean-prefer-close": "it accepts values that another requirement refuses",
}
"""Mutants whose fault reaches further than the features of their requirements, with the reason."""

KNOWN = {
    "leaves-repeated-endpoints-out": {"CHANGES/slices-of-a-service"},  # it repeats an endpoint in two slices
    "rewrites-at-any-node-event": {"KEP-2433/nothing-flips-between-the-thresholds"},  # it counts writes at Node events
}
"""Failures that belong to a fault although the features differ."""

LONGEST = 1.6  # seconds of a requirement
FEW, SHARE = 6, 12  # requirements of a mutant on each change; one in `SHARE` of the unrelated ones at night


def _features(requirement: str) -> frozenset[str]:
    return frozenset(each.name for each in SCENARIOS[requirement].requirement.features)


def subject(name: str) -> frozenset[str]:
    """Return the features of a mutant's fault. They are empty if its requirements have none in common."""
    killers = [each for each, scenario in SCENARIOS.items() if name in scenario.requirement.kills]
    narrow = [each for each in killers if not each.startswith(TABLES)] or killers
    return frozenset.intersection(*map(_features, narrow)) - GENERAL


def unrelated(name: str) -> list[str]:
    """Return the requirements of a mutant's component that are not about its fault."""
    (component,) = MUTANTS[name].changes
    of, durations = subject(name) | {RELEASES}, seconds()
    return sorted(
        each
        for each, scenario in SCENARIOS.items()
        if scenario.requirement.profile is PROFILES[component]
        and not each.startswith(TABLES)
        and not _features(each) & of
        and name not in scenario.requirement.kills
        and not scenario.requirement.last
        and durations[each] < LONGEST
    )


NAMES = sorted(
    name
    for name, each in MUTANTS.items()
    if len(each.changes) == 1 and each.changes <= PROFILES.keys() and not each.draw and name not in EVERYWHERE
    if subject(name)
)
DAILY = (
    "node-hints-for-every-value",
    "no-affinity",
    "ignores-external-local",
    "no-load-balancer-addresses",
    "families-are-frozen",
    "dns-ignores-topology-keys",
)
"""Mutants of different components and subjects."""


def _some(name: str, count: int) -> list[str]:
    found = unrelated(name)
    return random.Random(name).sample(found, min(count, len(found)))


def _failures(cluster: MutantTrial, requirements: Sequence[str]) -> dict[str, str]:
    """Return the requirements that fail with normal time limits."""
    with fewer_probes():
        outcomes = [cluster.outcome(each) for each in requirements]
    return {each.requirement: each.text for each in outcomes if each.verdict == "failed"}


@pytest.mark.parametrize("name", DAILY)
def test_mutant_fails_no_requirement_about_another_subject(name: str, trial: Callable[[Mutant], MutantTrial]) -> None:
    assert _failures(trial(MUTANTS[name]), _some(name, FEW)) == {}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", NAMES)
def test_each_mutant_fails_few_requirements_about_other_subjects(
    name: str, trial: Callable[[Mutant], MutantTrial]
) -> None:
    some = _some(name, len(unrelated(name)) // SHARE)
    assert _failures(trial(MUTANTS[name]), some).keys() <= KNOWN.get(name, set())


HIDES = "DNS/service-has-its-cluster-ips"
OF_SERVICES = (
    "DNS/names-are-the-same-in-any-case",
    "DNS/names-have-no-records-of-other-types",
    "DNS/server-keeps-running",
    "DNS/unnamed-ports-have-no-records",
)
"""Requirements that resolve a Service with a cluster IP."""


class _HidesEmptyServices(ClusterIndex):
    """Knows no Service with a cluster IP and without a ready endpoint, like CoreDNS with ignore empty_service."""

    def service(self, key: Key) -> Service | None:
        found = super().service(key)
        empty = not any(read_endpoints(self._slices.get(key, {}).values(), self._labels_of).values())
        return None if found is not None and found.cluster_ips and empty else found


def test_dns_server_that_hides_empty_services_fails_one_requirement(trial: Callable[[Mutant], MutantTrial]) -> None:
    hides = Mutant(
        "hides-empty-services", "", dns=partial(DnsServer, authority=authority_with_index(_HidesEmptyServices))
    )
    cluster = trial(hides)
    assert _failures(cluster, OF_SERVICES) == {}
    with time_scaled(kill_checks.SHORT):
        assert _failures(cluster, [HIDES]).keys() == {HIDES}


def test_subjects_and_exceptions_are_those_of_existing_mutants() -> None:
    assert {*EVERYWHERE, *KNOWN} <= MUTANTS.keys()
    assert {*DAILY, *KNOWN} <= {*NAMES}
    assert all(len(unrelated(each)) >= FEW for each in DAILY)
    assert len(NAMES) > 200
