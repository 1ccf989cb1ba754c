"""Select the requirements to run against each benign variant.

Nightly runs use all claimed requirements, and other runs use a sample.
"""

from __future__ import annotations

import re

from harness.model.requirements import Profile
from mutants import BENIGN, Mutant
from tests.conformance.api_and_dns_requests import REFERENCE
from tests.conformance.mutant_trials import SCENARIOS

READINGS = ("kep", "released")

_PARTS = {
    "proxy": {Profile.SERVICE_PROXY, Profile.CLUSTER},
    "controller": {Profile.ENDPOINTSLICE_CONTROLLER, Profile.CLUSTER},
    "pod_locators": {Profile.DNS},
    "dns": {Profile.DNS},
    "api_server": set(Profile),  # all components use the API server
    "kinds": set(Profile),
}
"""Maps each part of a cluster to the profiles that test the part."""


def profiles(variant: Mutant) -> set[Profile]:
    """Return the profiles that test the components a variant replaces."""
    return set().union(*(of for part, of in _PARTS.items() if _replaces(variant, part)))


def _replaces(variant: Mutant, part: str) -> bool:
    return getattr(variant, part) is not getattr(REFERENCE, part)


def claimed(variant: Mutant, reading: str) -> list[str]:
    """Return the requirements for a variant's features in one reading of the KEPs, including declared unmet ones."""
    tested = profiles(variant)
    return sorted(
        name
        for name, scenario in SCENARIOS.items()
        if scenario.requirement.profile in tested
        and scenario.requirement.as_ in {"", reading}
        and not variant.lacks & features(name)
    )


_READS = {
    "controller": {Profile.ENDPOINTSLICE_CONTROLLER, Profile.CLUSTER},
    "api_server": {Profile.API_SERVER, Profile.ENDPOINTSLICE_CONTROLLER, Profile.CLUSTER},
    "kinds": {Profile.API_SERVER, Profile.ENDPOINTSLICE_CONTROLLER, Profile.CLUSTER},
}
"""The parts whose behaviour depends on the reading, and the profiles whose results can depend on that behaviour.

Proxies use the reading only for topology keys. DNS servers and PodLocator controllers never use the reading.
"""
_KEYS = {"TopologyKeys", "TopologyKeysRouting"}


def tried(variant: Mutant, reading: str) -> list[str]:
    """Return the requirements to run against a variant in one reading of the KEPs.

    The list has all claimed requirements without duplicates.

    A requirement can be identical in both readings. It then runs again in the released reading only if a replaced
    component depends on the reading. All other components belong to the reference, which has a certified run in both
    readings.
    """
    asked = claimed(variant, reading)
    if reading == READINGS[0]:
        return asked
    reads = set().union(*(of for part, of in _READS.items() if _replaces(variant, part)))
    return [each for each in asked if _depends(each, reads)]


def _depends(name: str, reads: set[Profile]) -> bool:
    requirement = SCENARIOS[name].requirement
    return bool(requirement.as_) or requirement.profile in reads or bool(features(name) & _KEYS)


def features(requirement: str) -> set[str]:
    """Return the names of the features that a requirement needs."""
    return {feature.name for feature in SCENARIOS[requirement].requirement.features}


def is_late(name: str) -> bool:
    """Return whether a variant delays each change by several seconds. Such variants run only in nightly runs."""
    return bool(re.search(r"(?<!-0)-[13]-s-late$|ten-seconds-late$", name))


def sample(name: str) -> tuple[str, ...]:
    """Return the requirements that react most to the way in which a variant differs."""
    if name in SAMPLES:
        return SAMPLES[name]
    return OF_WATCHES["controller" if name.startswith("controller-") else "proxy"]


_SPREAD = (
    "CHANGES/shares-stay-even",
    "KEP-4444/default-spreads-evenly",
    "KEP-4444/default-spreads-queries-evenly",
)
_CLIENTS = (
    "SERVICE/pod-reaches-itself",
    "SERVICE/cluster-ip-from-pods-and-nodes",
    "SERVICE/external-local-keeps-the-client-address",
    "SERVICE/node-port-of-another-node",
)
_SILENCE = (
    "KEP-2086/local-without-endpoints-drops",
    "SERVICE/deleted-service-gives-no-answer",
    "SERVICE/no-endpoints-are-refused",
)
_CUTS = ("KEP-4444/every-slice-is-hinted", "METRICS/slices-and-endpoints-are-counted", "SLICE/every-pod-stands-once")
_SETTLED = ("KEP-2433/slices-that-are-right-are-not-written", "KEP-4444/a-settled-service-is-not-written-again")

OF_WATCHES = {
    "proxy": ("KEP-4444/hints-come-and-go-on-a-live-service", "KEP-4444/relabelled-node-uses-its-new-zone"),
    "controller": ("KEP-2433/hints-that-became-possible-come-with-the-next-change", "KEP-4444/hints-follow-the-field"),
}

SAMPLES = {
    # proxies
    "takes-turns": (*_SPREAD, "SERVICE/removed-endpoint-gets-nothing"),
    "hashes-the-source": (*_SPREAD, "SERVICE/external-local-stays-on-the-node"),
    "seeds-of-its-own": (*_SPREAD, "SERVICE/external-local-stays-on-the-node"),
    "weighted": (
        *_SPREAD,
        "KEP-2433/no-endpoint-is-overloaded",
        "KEP-4444/zone-spreads-evenly",
        "KEP-536/selected-endpoints-get-equal-shares",
        "SERVICE/removed-endpoint-gets-nothing",
        "SERVICE/repeated-endpoint-counts-once",
    ),
    "ten-seconds-late": (*OF_WATCHES["proxy"], "SERVICE/changes-reach-packets-in-seconds"),
    "hears-everything-again": (*OF_WATCHES["proxy"], "KEP-4444/last-sync-grows-old"),
    "translates-inside-too": _CLIENTS,
    "keeps-clients-of-own-pods": (*_CLIENTS, "KEP-4444/external-traffic-follows-hints-of-the-node-it-enters"),
    "keeps-flows": (
        "KEP-4444/zone-change-loses-no-query",
        "SERVICE/udp-flow-from-before-the-first-endpoint",
        "SERVICE/udp-flow-leaves-a-removed-endpoint",
        "SERVICE/udp-flows-at-external-addresses",
        "SERVICE/udp-flows-at-node-ports",
        "SERVICE/udp-flows-over-ipv6-leave-a-removed-endpoint",
        "SERVICE/udp-flows-at-node-ports-end-with-the-last-endpoint",
        "SERVICE/udp-flows-at-node-ports-end-with-their-service",
        "SERVICE/udp-flows-follow-the-target-port",
        "SERVICE/udp-flows-of-local-policies",
        "SERVICE/udp-flows-older-than-the-proxy-leave-a-removed-endpoint",
        "SERVICE/udp-flows-end-with-the-last-endpoint",
        "SERVICE/udp-flows-end-with-their-service",
        "SERVICE/udp-flows-outside-end-with-the-last-endpoint",
        "SERVICE/udp-flows-outside-end-with-their-service",
        "SERVICE/udp-flows-over-ipv6-end-with-the-last-endpoint",
        "SERVICE/udp-flows-over-ipv6-end-with-their-service",
    ),
    "node-ports-on-one-address": (
        "SERVICE/node-port-on-every-node",
        "SERVICE/node-port-of-another-node",
        "SERVICE/node-ports-over-ipv6",
    ),
    "slow": ("KEP-4444/relabelled-node-uses-its-new-zone", "KEP-4444/hints-come-and-go-without-loss"),
    "rebuilds": (
        "CHANGES/affinity-timeout-of-a-service",
        "AFFINITY/new-endpoints-move-nobody",
        "KEP-3015/tiers-change-without-losing-a-query",
    ),
    "a-chain-for-each": (
        *_CLIENTS,
        "AFFINITY/client-keeps-its-endpoint",
        "KEP-3015/tiers-change-without-loss",
        "SERVICE/dual-stack-cluster-ips",
        "SERVICE/external-local-stays-on-the-node",
    ),
    "ends-with-its-node": ("CHANGES/a-node-is-created-anew", "KEP-4444/lost-node-changes-no-routing"),
    "beside-others": _SILENCE,
    "backwards": ("AFFINITY/leaves-with-its-endpoint", "SERVICE/removed-endpoint-gets-nothing"),
    "refuses-by-host-unreachable": (*_SILENCE, "KEP-536/missing-label-matches-nobody"),
    "refuses-by-admin-prohibited": (*_SILENCE, "KEP-536/missing-label-matches-nobody"),
    "drops-what-no-service-has": _SILENCE,
    "refuses-what-no-service-has": _SILENCE,
    "translates-at-the-client": (
        *_CLIENTS,
        "CHANGES/source-ranges-of-a-service",
        "CHANGES/source-ranges-of-both-families",
        "KEP-3015/node-then-zone-then-anywhere",
        "KEP-4444/hints-come-and-go-on-a-live-service",
        "SERVICE/removed-endpoint-gets-nothing",
    ),
    "closes-what-has-left": (
        "KEP-1669/established-connections-outlive-the-choice",
        "KEP-1669/open-connections-outlive-the-last-endpoint",
        "KEP-3015/tiers-change-without-loss",
        "KEP-4444/zone-loses-and-regains-its-endpoints",
        "SERVICE/removed-endpoint-gets-nothing",
    ),
    "follows-hints-where-asked": (
        "KEP-3015/node-then-zone-then-anywhere",
        "KEP-4444/hints-come-and-go-on-a-live-service",
        "KEP-4444/proxy-follows-hints-whatever-the-service-says",
    ),
    "hard-affinity-timeout": (
        "AFFINITY/coming-again-renews-it",
        "AFFINITY/ends-after-its-time",
        "CHANGES/affinity-timeout-of-a-service",
    ),
    # controllers
    "one-endpoint-a-slice": (*_CUTS, "KEP-2433/slices-are-shared-out-together"),
    "slices-of-two-hundred": (*_CUTS, "KEP-2433/four-hundred-endpoints"),
    "slices-of-a-thousand": (*_CUTS, "KEP-2433/four-hundred-endpoints"),
    "one-slice-a-port": (*_CUTS, "KEP-2433/endpoints-count-once", "SLICE/named-ports-resolve-per-pod"),
    "merging": (*_SETTLED, "KEP-2433/removals-are-shared-out", "SLICE/endpoints-follow-the-pods"),
    "shuffles": (*_SETTLED, "METRICS/changed-slices-by-value"),
    "slow-controller": ("KEP-2433/zone-of-a-node-is-noticed", "SLICE/endpoints-follow-the-pods"),
    "keeps-lost-pods": ("KEP-2433/endpoint-without-zone-ends-hints", "KEP-4444/failed-sync-is-an-event"),
    "nil-conditions": ("KEP-2433/unready-endpoints-do-not-count", "SLICE/conditions-of-endpoints"),
    "off-then-on": (
        "KEP-4444/hints-need-no-write-of-their-own",
        "KEP-2433/annotation-switches-hints",
        "KEP-2433/node-event-writes-each-slice-once",
        "KEP-4444/hints-follow-the-field",
    ),
    "moves-few": (
        "KEP-2433/endpoints-are-shared-out",
        "KEP-2433/endpoints-of-a-zone-without-nodes-keep-it",
        "KEP-2433/shares-of-the-example",
    ),
    "cores-count-late": (  # the first requirement leaves different numbers of cores
        "KEP-2433/unequal-zones-below-the-threshold",
        "KEP-4444/field-set-and-removed-under-the-annotation",
    ),
    "events-in-other-words": ("KEP-2433/given-hints-are-an-event", "KEP-2433/withdrawn-hints-are-an-event"),
    # API servers
    "other-words": ("KEP-3015/api-limits-node-hints", "KEP-4444/api-refuses-other-values"),
    "versions-jump": (*_SETTLED, "KEP-4444/return-of-the-api-server-disturbs-nothing"),
    "lists-backwards": (*_SETTLED, "KEP-2433/endpoints-are-shared-out", "KEP-4444/field-reaches-the-packets"),
    "fields-backwards": (*_SETTLED, "KEP-4444/api-describes-the-field", "KEP-3015/api-stores-hints-of-both-kinds"),
    "generates-other-names": ("KEP-4444/slices-of-others-are-left-alone", "SLICE/every-pod-stands-once"),
    "admits-with-additions": (*_SETTLED, "KEP-3015/prefer-close-warns", "KEP-4444/api-counts-hint-changes"),
    # DNS servers
    "dns-denies-where-none-is-near": ("KEP-536/dns-follows-keys", "KEP-536/dns-tells-of-none-where-none-is-near"),
    "dns-hides-hard-keys-from-strangers": ("KEP-536/dns-tells-unknown-clients-of-all",),
    "dns-in-another-order": ("DNS/headless-service-has-its-ready-endpoints", "DNS/service-has-its-cluster-ips"),
    "dns-says-no-more-than-asked": ("DNS/endpoint-has-its-hostname", "KEP-536/dns-tells-of-ports-in-the-clients-place"),
    "dns-keeps-answers": ("DNS/answers-may-be-kept-for-a-short-time", "KEP-536/dns-follows-keys"),
    "dns-lives-for-half-a-minute": ("DNS/answers-may-be-kept-for-a-short-time",),
    "dns-is-never-kept": ("DNS/answers-may-be-kept-for-a-short-time",),
    "dns-cuts-early": ("DNS/large-answers-come-whole-over-tcp",),
}


TRIED = {
    (name, reading): found
    for name in sorted(BENIGN, key=is_late, reverse=True)
    for reading in READINGS
    if (found := tried(BENIGN[name], reading))
}
"""The requirements of each variant in nightly runs, by name and reading. Slow variants come first."""
