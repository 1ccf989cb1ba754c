"""What is odd but right passes; what does nothing passes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.model.requirements import MUST, Profile
from mutants import BENIGN, MUTANTS, Mutant, benign_controllers, benign_dns, benign_watches
from tests.conformance.trials import SCENARIOS, Trial, time_scaled

TELLING = (
    "SERVICE/cluster-ip-from-pods-and-nodes",
    "SERVICE/pod-reaches-itself",
    "SERVICE/node-port-of-another-node",
    "SERVICE/external-local-keeps-the-client-address",
    "SERVICE/removed-endpoint-gets-nothing",
    "SERVICE/udp-flow-leaves-a-removed-endpoint",
    "KEP-2086/local-stays-on-the-node",
    "KEP-3015/node-then-zone-then-anywhere",
    "KEP-3015/node-hints-hold-for-ipv6",
    "KEP-1669/established-connections-outlive-the-choice",
    "KEP-4444/zone-loses-and-regains-its-endpoints",
    "KEP-3015/tiers-change-without-losing-a-query",
    "KEP-4444/default-spreads-evenly",
    "KEP-4444/hot-zone-stays-in-the-zone",
)
"""One of each way of sending: protocols, families, kinds of addresses, policies, changes, connections that stay."""

SILENT = (
    "KEP-4444/no-hints-use-every-endpoint",
    "KEP-2086/local-without-endpoints-drops",
    "KEP-2086/local-without-endpoints-does-not-fall-back",
    "SERVICE/external-local-without-endpoints-drops",
    "SERVICE/no-endpoints-are-refused",
    "SERVICE/deleted-service-gives-no-answer",
    "SERVICE/udp-flow-leaves-a-removed-endpoint",
    "KEP-1669/established-connections-outlive-the-choice",
)
"""Most of these expect silence or a refusal, which a proxy that does nothing could seem to give."""


def _of(profile: Profile) -> list[str]:
    return sorted(each for each, scenario in SCENARIOS.items() if scenario.requirement.profile is profile)


PROXIES = ("takes-turns", "translates-inside-too", "slow", "rebuilds", "beside-others", "backwards")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROXIES)
def test_odd_proxy_passes(name: str, trial: Callable[[Mutant], Trial]) -> None:
    cluster = trial(BENIGN[name])
    assert {each: text for each in TELLING if (text := cluster.failure(each))} == {}


WHOLE_PROXIES = ("hashes-the-source", "refuses-by-host-unreachable", "refuses-by-admin-prohibited")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("name", WHOLE_PROXIES)
def test_odd_proxy_passes_the_whole_profile(name: str, part: int, trial: Callable[[Mutant], Trial]) -> None:
    cluster = trial(BENIGN[name])
    assert {each: text for each in _of(Profile.SERVICE_PROXY)[part::2] if (text := cluster.failure(each))} == {}


CONTROLLERS = ("one-endpoint-a-slice", "slow-controller", *(each.name for each in benign_controllers.BENIGN))

GOALS = {
    "off-then-on": {"KEP-2433/node-event-writes-each-slice-once"},
    "moves-few": {"KEP-2433/endpoints-of-a-zone-without-nodes-keep-it"},
}
"""The goals (SHOULD) and habits of releases (MAY) that a right variant does not share."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("profile", [Profile.SERVICE_PROXY, Profile.CLUSTER])
def test_proxy_that_follows_hints_where_asked_passes_all_but_one(
    profile: Profile, trial: Callable[[Mutant], Trial]
) -> None:
    _expect_met(BENIGN["follows-hints-where-asked"], _of(profile), trial)


@pytest.mark.slow
def test_proxy_with_a_hard_affinity_timeout_passes_all_but_renewal(trial: Callable[[Mutant], Trial]) -> None:
    about_affinity = [each for each in SCENARIOS if "SessionAffinity" in _features(each)]
    _expect_met(BENIGN["hard-affinity-timeout"], about_affinity, trial)


def _expect_met(variant: Mutant, requirements: list[str], trial: Callable[[Mutant], Trial]) -> None:
    """A variant fails just those of the requirements that it says it does not meet; what it lacks is not asked for."""
    cluster = trial(variant)
    claimed = [each for each in requirements if not variant.lacks & _features(each)]
    failures = {each: text for each in claimed if (text := cluster.failure(each))}
    assert failures.keys() == variant.unmet & {*claimed}, failures


def _features(requirement: str) -> set[str]:
    return {feature.name for feature in SCENARIOS[requirement].requirement.features}


def test_what_benign_variants_lack_and_leave_unmet_exists() -> None:
    features = {name for each in SCENARIOS for name in _features(each)}
    assert all(each.lacks <= features and each.unmet <= SCENARIOS.keys() for each in BENIGN.values())
    assert not any(SCENARIOS[name].requirement.level is MUST for each in BENIGN.values() for name in each.unmet)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTROLLERS)
def test_odd_controller_passes_the_whole_profile(name: str, trial: Callable[[Mutant], Trial]) -> None:
    cluster = trial(BENIGN[name])
    failures = {each: text for each in _of(Profile.ENDPOINTSLICE_CONTROLLER) if (text := cluster.failure(each))}
    assert failures.keys() == GOALS.get(name, set()), failures


TOGETHER = (
    "KEP-2433/annotation-reaches-the-packets",
    "KEP-2433/no-endpoint-is-overloaded",
    "KEP-2433/transitions-lose-no-connection",
    "KEP-3015/new-values-reach-the-packets",
    "KEP-3015/upgrade-brings-hints-back",
    "KEP-4444/controller-catches-up",
    "KEP-4444/drained-node-loses-no-connection",
    "KEP-4444/field-reaches-the-packets",
    "KEP-4444/field-set-changed-and-removed-under-traffic",
    "KEP-4444/return-of-the-api-server-disturbs-nothing",
    "KEP-4444/rollout-loses-no-connection",
)
"""What becomes of the slices of a controller at proxies, in calm, under changes, in rollouts and after outages."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTROLLERS)
def test_proxies_make_the_same_of_the_slices_of_an_odd_controller(name: str, trial: Callable[[Mutant], Trial]) -> None:
    cluster = trial(BENIGN[name])
    assert {each: text for each in TOGETHER if (text := cluster.failure(each))} == {}


def test_what_a_right_variant_does_not_share_is_no_must() -> None:
    assert MUST not in {SCENARIOS[each].requirement.level for goals in GOALS.values() for each in goals}


def test_api_server_with_other_words_passes_the_whole_profile(trial: Callable[[Mutant], Trial]) -> None:
    cluster = trial(BENIGN["other-words"])
    assert {each: text for each in _of(Profile.API_SERVER) if (text := cluster.failure(each))} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", [each.name for each in benign_dns.BENIGN])
def test_odd_dns_server_passes_the_whole_profile(name: str, trial: Callable[[Mutant], Trial]) -> None:
    cluster = trial(BENIGN[name])
    assert {each: text for each in _of(Profile.DNS) if (text := cluster.failure(each))} == {}


def test_every_benign_variant_is_tried() -> None:
    families = {"follows-hints-where-asked", "hard-affinity-timeout"}
    watches = {each.name for each in benign_watches.BENIGN}
    servers = {each.name for each in benign_dns.BENIGN}
    assert {*PROXIES, *CONTROLLERS, *families, *watches, *servers, *WHOLE_PROXIES, "other-words"} == BENIGN.keys()


def test_proxy_that_does_nothing_passes_nothing(trial: Callable[[Mutant], Trial]) -> None:
    cluster = trial(MUTANTS["nothing-moves"])
    with time_scaled(0.1):
        assert [each for each in SILENT if not cluster.failure(each)] == []
