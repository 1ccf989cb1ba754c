"""Each mutant of a proxy's parsing, state, rules or reports is wrong only in the cases that its description names.

`SAID` has, for each mutant, the conditions that trigger its fault and the affected behaviour. In a case without one of
these conditions, the mutant behaves like the reference after every step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import pytest

from mutants import MUTANTS, Mutant, many_objects, proxy_locators, random_events, trigger_times
from reference.proxy import ServiceProxy
from reference.proxy.balancing_chains import action_chain
from reference.proxy.base_rules import Chain, fixed_chains
from reference.proxy.ruleset import LOCAL_LIST
from reference.proxy.state import FAMILIES
from tests.conformance import test_change_mutants, test_decision_mutants, test_traffic_shares
from tests.conformance.api_and_dns_requests import REFERENCE
from tests.conformance.proxy_cases import ProxyCase, Seen, generated_cases, run_case
from tests.conformance.reduced_proxy_cases import WITHOUT

FEW, MOST = 10, 500

EXTERNAL = ("node port", "load balancer IP", "external IP")
EVERYWHERE = ("cluster IP", *EXTERNAL)
FOLLOWING = {"hairpin", "stale", "drops", "affinity", "affinity outside"}
"""Maps a kind of behaviour to other kinds that change as a consequence."""
CHECK = "health check port"


@dataclass(frozen=True)
class FaultScope:
    """The conditions that trigger a mutant's fault, and the kinds of behaviour that are then wrong."""

    needs: tuple[str, ...]
    at: tuple[str, ...] = EVERYWHERE


SAID: Mapping[str, FaultScope] = {
    # objects parsed incorrectly
    "zone-of-the-endpoint-instead-of-hint": FaultScope(("zone hints", "hints for other zones than their own")),
    "node-of-the-endpoint-instead-of-hint": FaultScope(("node hints", "hints for other nodes than their own")),
    "first-hint-only": FaultScope(("several hints",)),
    "unknown-readiness-means-not-ready": FaultScope(("unknown readiness",), (*EVERYWHERE, CHECK)),
    "unknown-serving-means-no": FaultScope(("unknown serving", "terminating endpoints")),
    # events missed or not forgotten
    "ignores-node-updates": FaultScope(("changes of the node",)),
    "hints-outlive-their-removal": FaultScope(("changes of slices", "hints", "hints that change")),
    "ignores-external-local": FaultScope(("external Local",), (*EXTERNAL, CHECK)),
    "ignores-service-deletes": FaultScope(("deletes of Services",), (*EVERYWHERE, CHECK)),
    "ignores-service-updates": FaultScope(("changes of Services",), (*EVERYWHERE, CHECK)),
    "ignores-slice-deletes": FaultScope(("deletes of slices",), (*EVERYWHERE, CHECK)),
    "keeps-removed-endpoints": FaultScope(("changes of slices", "added or removed endpoints"), (*EVERYWHERE, CHECK)),
    "ignores-new-endpoints": FaultScope(("changes of slices", "added or removed endpoints"), (*EVERYWHERE, CHECK)),
    "one-update-late": FaultScope(("changes of slices",), (*EVERYWHERE, CHECK)),
    # objects grouped for a decision
    "judges-each-slice": FaultScope(("hints", "unhinted endpoints", "several slices")),
    "judges-all-ports-together": FaultScope(("zone hints", "several ports")),
    "judges-both-families-together": FaultScope(("hints", "IPv6", "unhinted endpoints")),
    "hints-need-the-field": FaultScope(("hints", "no field")),
    "field-without-hints": FaultScope(("the field", "unhinted endpoints")),
    "never-returns-to-hints": FaultScope(("hints", "changes")),
    "never-returns-to-zone-hints": FaultScope(("zone hints", "changes")),
    "zone-remembered-by-services": FaultScope(("changes of the node", "zone hints")),
    # rules
    "nothing-moves": FaultScope(()),
    "no-hairpin-masquerade": FaultScope(("endpoints on the own node",), ("hairpin",)),
    "hairpin-goes-with-its-first-service": FaultScope(("endpoints on the own node", "changes"), ("hairpin",)),
    "no-load-balancer-addresses": FaultScope(("load balancer IPs",), ("load balancer IP",)),
    "no-external-ips": FaultScope(("external IPs",), ("external IP",)),
    "node-port-beside-endpoints-only": FaultScope(("node ports",), ("node port",)),
    "external-local-falls-back": FaultScope(("external Local",), EXTERNAL),
    "external-ips-ignore-local": FaultScope(("external Local", "external IPs"), ("external IP",)),
    "no-udp": FaultScope(("UDP",)),
    "no-ipv6": FaultScope(("IPv6",)),
    "leaves-udp-flows": FaultScope(("UDP",), ("stale",)),
    # affinity
    "no-affinity": FaultScope(("affinity",), ("affinity", "affinity outside")),
    "no-affinity-over-udp": FaultScope(("affinity", "UDP"), ("affinity", "affinity outside")),
    "no-affinity-with-external-local": FaultScope(("affinity", "external Local"), ("affinity", "affinity outside")),
    "affinity-at-the-cluster-ip-only": FaultScope(("affinity",), ("affinity outside",)),
    "affinity-outlives-endpoints": FaultScope(("affinity", "changes")),
    "everyone-gets-the-same-endpoint": FaultScope(("affinity",)),
    "affinity-for-ever": FaultScope(("affinity",), ("affinity", "affinity outside")),
    # topology keys
    "topology-keys-by-default": FaultScope(("gate of topologyKeys", "no topology keys")),
    "remembers-topology-keys": FaultScope(("gate of topologyKeys", "topology keys", "changes of Services")),
    "topology-keys-of-the-last-service": FaultScope(
        ("gate of topologyKeys", "topology keys", "no topology keys", "several Services")
    ),
    "ignores-updates-of-other-nodes": FaultScope(("gate of topologyKeys", "topology keys", "changes of other nodes")),
    "remembers-the-topology-key-that-decided": FaultScope(("gate of topologyKeys", "several topology keys", "changes")),
    "topology-keys-need-no-gate": FaultScope(("disabled gate of topologyKeys", "topology keys")),
    # releases
    "newest-proxy-at-any-release": FaultScope(("older releases",), (*EVERYWHERE, "timestamps", "changes")),
    "oldest-proxy-at-any-release": FaultScope(("newer releases",), (*EVERYWHERE, "timestamps", "changes", "health")),
    "no-hints-without-the-gate": FaultScope(("releases with the annotation", "annotation", "zone hints")),
    "no-zone-hints-without-node-hints": FaultScope(("older releases", "zone hints")),
    "knows-no-node-level-hints": FaultScope(("gate NodeLevelTopology", "node hints")),
    # restarts
    "routes-only-what-changes": FaultScope(("objects that already exist",), (*EVERYWHERE, CHECK, "changes")),
    "watches-once-as-a-proxy": FaultScope(("an outage",), (*EVERYWHERE, CHECK, "health", "changes")),
    "restarted-takes-terminating-for-ready": FaultScope(
        ("objects that already exist", "terminating endpoints"), (*EVERYWHERE, CHECK)
    ),
    "restarted-keeps-who-terminates-out": FaultScope(("objects that already exist", "terminating endpoints")),
    "starts-without-internal-policies": FaultScope(("objects that already exist", "internal Local"), ("cluster IP",)),
    "zone-known-at-the-start-or-never": FaultScope(("changes of the node", "zone hints")),
    # situations
    "once-ready-always-ready": FaultScope(("changes of slices",), (*EVERYWHERE, CHECK)),
    "local-keeps-its-last-endpoints": FaultScope(("changes",)),
    "leaves-endpoints-outside-of-pod-cidrs-out": FaultScope(()),
    "endpoints-outside-of-pod-cidrs-are-elsewhere": FaultScope(("endpoints on the own node",)),
    "no-node-ports-over-ipv6": FaultScope(("IPv6", "node ports"), ("node port",)),
    "leaves-udp-flows-over-ipv6": FaultScope(("IPv6", "UDP"), ("stale",)),
    "leaves-udp-flows-at-node-ports": FaultScope(("node ports", "UDP"), ("stale",)),
    "leaves-udp-flows-at-external-addresses": FaultScope(("UDP",), ("stale",)),
    "first-port-alone-is-reached-from-outside": FaultScope(("several ports",), ("load balancer IP", "external IP")),
    "forgets-no-flow-from-before": FaultScope(("UDP",), (*EVERYWHERE, "stale")),
    "leaves-udp-flows-of-deleted-services": FaultScope(("UDP",), ("stale",)),
    "leaves-udp-flows-of-emptied-services": FaultScope(("UDP",), ("stale",)),
    "leaves-udp-flows-of-local-endpoints": FaultScope(("UDP", "external Local", "zone hints"), ("stale",)),
    "keeps-the-last-endpoints": FaultScope(("changes",)),
    "keeps-the-last-endpoints-over-udp": FaultScope(("changes", "UDP")),
    "never-empties-node-ports": FaultScope(("changes",), EXTERNAL),
    "keeps-node-ports-of-deleted-services": FaultScope(("deletes of Services",), EXTERNAL),
    "keeps-deleted-services-over-udp": FaultScope(("deletes of Services", "UDP")),
    # reports
    "last-sync-is-now": FaultScope((), ("timestamps",)),
    "proxy-metrics-never-change": FaultScope((), ("drops", "timestamps", "changes")),
    "timestamps-in-milliseconds": FaultScope((), ("timestamps",)),
    "drops-counted-for-the-other-policy": FaultScope((), ("drops",)),
    "refusals-counted-as-drops": FaultScope(("internal Local",), ("drops",)),
    "never-healthy": FaultScope((), ("health",)),
    "healthy-until-it-is-gone": FaultScope(("a node that is being deleted",), ("health",)),
    "dead-when-it-is-about-to-go": FaultScope(("a node that is being deleted",), ("health",)),
    "health-port-counts-all-endpoints": FaultScope(("external Local", "endpoints on other nodes"), (CHECK,)),
    "health-port-counts-hinted-endpoints": FaultScope(("external Local", "zone hints"), (CHECK,)),
    "health-port-counts-terminating-endpoints": FaultScope(("external Local", "terminating endpoints"), (CHECK,)),
    "health-port-counts-once": FaultScope(("external Local", "changes"), (CHECK,)),
    "health-port-without-weight": FaultScope(("external Local",), (CHECK,)),
}

CHAINS: Mapping[str, tuple[str, str]] = {
    "always-masquerades": ("masquerading", "meta mark &"),
    "pods-of-other-nodes-keep-their-address": ("masquerading", "saddr @pods masq"),
    "passes-clients-on-the-node-by": ("output", ""),
    "affinity-is-not-renewed": ("affinity-.*", "update @affinity"),
    "affinity-outlives-endpoints-of-the-node": ("affinity-.*-local", "delete @affinity"),
    "sheds-under-load": ("(affinity|lb)-.*", "ct count over"),
}
"""The chains that mutants change, and the content of the added, dropped or changed rules."""

OTHERWISE: Mapping[str, str] = {
    "cuts-open-connections": "it changes the conntrack table, and no rule",
    "cuts-connections-with-the-last-endpoint": "it changes the conntrack table, and no rule",
    "forgets-connections-at-start": "it changes the conntrack table, and no rule",
    "forgets-udp-flows-at-start": "it changes the conntrack table, and no rule",
    "refused-rules-count-as-synced": "no kernel refuses rules in these cases",
    "reads-tables-of-other-programs": "no other program has tables in these cases",
    "cuts-connections-at-node-ports": "it changes the conntrack table, and no rule",
    "cuts-connections-when-endpoints-join": "it changes the conntrack table, and no rule",
    "counts-repeated-endpoints-twice": "no address is in two slices in these cases",
    "leaves-repeated-endpoints-out": "no address is in two slices in these cases",
    "one-endpoint-an-address": "no address is in two slices in these cases",
    "first-endpoint-of-an-address-counts": "no address is in two slices in these cases",
    "last-endpoint-of-an-address-counts": "no address is in two slices in these cases",
    "local-endpoint-of-an-address-counts": "no address is in two slices in these cases",
    "hints-of-the-first-port": "no address is in two slices in these cases",
    "affinity-outlives-readiness": "no endpoint in these cases is first ready and then neither ready nor terminating",
    "first-hundred-of-those-hinted": "no Service in these cases has so many endpoints",
    "hints-of-the-first-hundred": "no Service in these cases has so many endpoints",
    "deaf-to-changes-among-a-thousand": "no Service in these cases has so many endpoints",
    "first-hundred-of-a-slice": "no slice in these cases has so many endpoints",
    "looks-at-no-namespace": "all objects of a case are in one namespace",
    "skips-endpoints-of-unready-nodes": "no Node in these cases has a Ready condition",
    "freezes-annotations": "it is based on a proxy that uses hints only on request, so it differs in many cases",
    "freezes-distribution": "it is based on a proxy that uses hints only on request, so it differs in many cases",
    "crashes-on-endpoints-without-conditions": "it exits, and the existing state remains",
    "crashes-on-slices-of-names": "it exits, and the existing state remains",
    "hangs-on-slices-without-ports": "it hangs, and the existing state remains",
    "forgets-before-it-learns": "there is a delay between two writes to the kernel; the final state is right",
    "forgets-for-200-ms": "there is a delay between two writes to the kernel; the final state is right",
    "forgets-for-a-second": "there is a delay between two writes to the kernel; the final state is right",
    "udp-forgets-before-it-learns": "there is a delay between two writes to the kernel; the final state is right",
    "gets-its-node-for-hints": "it reads more objects, and behaves like the reference",
    "watches-all-nodes": "it reads more objects, and behaves like the reference",
    "watches-pods-from-the-first-hint": "it reads more objects, and behaves like the reference",
    "caches-changes": "it is delayed; the final state is right",
    "flushes-before-it-starts": "there is a delay between two writes to the kernel; the final state is right",
    "local-lists-of-one-length": "the missing part of a change is visible only in the kernel",
    "takes-disabled-for-auto": "no case has the annotation Disabled",
    "shares-pile-up": "these cases do not cover shares of endpoints; tests/conformance/test_traffic_shares.py does",
    "starts-without-external-policies": "the missing part of a full load is visible only in the kernel",
    "forgets-all-without-its-server": "it checks for its server at fixed times",
    "first-of-a-burst-counts": "the missed changes depend on the time between changes",
    "second-of-a-name-is-missed": "the missed changes depend on the time between changes",
    "labels-need-a-value": "all node labels of these cases have a value",
    "removed-families-stay": "no Service of these cases gives up a family",
    "unhealthy-for-its-own-pods": "no client in these cases sends packets to the proxy's ports",
    "health-port-closes-behind-its-heir": "no proxy in these cases receives two changes together",
    "leaves-udp-flows-to-former-ports": "the slices of these cases keep their port numbers",
    "looks-for-no-older-flows": "connections of an earlier proxy exist only in the kernel",
    "looks-for-no-older-flows-over-ipv6": "connections of an earlier proxy exist only in the kernel",
    "keeps-what-went-while-it-was-away": "rules of an earlier proxy exist only in the kernel",
    "affinity-by-position": "the identities of endpoints are computed when the rules are written",
    "affinity-ends-with-the-proxy": "the clients of an earlier proxy exist only in the kernel",
    "leaves-udp-flows-from-before-its-start": "connections of an earlier proxy exist only in the kernel",
    "ip-mode-of-all-addresses": "no load balancer address in these cases has an ipMode",
    "source-ranges-of-whole-octets": "no Service in these cases has loadBalancerSourceRanges",
    "crashes-on-source-ranges": "no Service in these cases has loadBalancerSourceRanges",
    "ready-endpoints-that-terminate-are-unused": "no endpoint in these cases is ready and terminating",
    **dict.fromkeys((each.name for each in proxy_locators.MUTANTS), "these cases have no PodLocators"),
    **dict.fromkeys(
        (each.name for each in trigger_times.MUTANTS if "proxy" in each.changes),
        "no slice in these cases has the time of a change",
    ),
    **dict.fromkeys(
        (
            "zone-labels-of-slices-are-hints",
            "zone-names-by-prefix",
            "node-names-by-prefix",
            "node-names-end-at-the-first-dot",
            "node-names-of-63-characters",
            "first-endpoint-decides-about-hints",
            "last-slice-alone",
            "first-slice-alone",
            "slices-need-a-manager",
            "slice-names-without-namespaces",
            "ports-without-protocols",
            "leaves-udp-flows-beside-tcp-ports",
            *(each.name for each in random_events.MUTANTS),
            *(each.name for each in many_objects.MUTANTS if "proxy" in each.changes),
        ),
        "drawn values reveal it: tests/conformance/test_mutants.py runs requirements with them",
    ),
}
"""Mutants whose fault only real packets reveal: it is in timing, in the kernel, or in a situation that no case has."""


def _answers(mutant: Mutant, case: ProxyCase) -> list[Seen]:
    return run_case(mutant.proxy, case)


@cache
def _all() -> list[ProxyCase]:
    return generated_cases(MOST)


@cache
def _reference_output(number: int, need: str = "") -> tuple[ProxyCase, list[Seen]]:
    """Return a case without the condition `need`, and the behaviour of the reference for it."""
    case = WITHOUT[need](_all()[number]) if need else _all()[number]
    return case, _answers(REFERENCE, case)


def _wrong_at(name: str, case: ProxyCase, right: list[Seen]) -> set[str]:
    wrong: set[str] = set()
    for mine, its in zip(right, _answers(MUTANTS[name], case), strict=True):
        if mine != its:
            wrong |= {str(key[0]) for key in mine.keys() | its.keys() if mine.get(key) != its.get(key)}
    return wrong


def test_every_proxy_mutant_has_a_case() -> None:
    of_proxies = {name for name, each in MUTANTS.items() if each.proxy is not ServiceProxy}
    others = [
        test_decision_mutants.SAID,
        test_change_mutants.MISSED,
        test_traffic_shares.RATES,
        test_traffic_shares.COUNTED,
    ]
    tables = [SAID, CHAINS, OTHERWISE, *others]
    assert of_proxies - {name for table in tables for name in table} == set()


@pytest.mark.parametrize("name", SAID)
def test_mutant_is_wrong_where_its_case_says(name: str) -> None:
    wrong, said = set[str](), {*SAID[name].at}
    follows = FOLLOWING - said if said & {*EVERYWHERE} else set()
    for number in range(MOST):
        if number >= FEW and wrong >= said:
            break
        wrong |= _wrong_at(name, *_reference_output(number))
        wrong |= {*EXTERNAL} if said >= {*EXTERNAL} and not wrong.isdisjoint(EXTERNAL) else set()
    assert wrong - follows == said


@pytest.mark.parametrize(("name", "need"), [(name, need) for name, said in SAID.items() for need in said.needs])
def test_mutant_is_right_without_its_trigger(name: str, need: str) -> None:
    told = [_reference_output(number, need) for number in range(FEW)]
    assert [(case, wrong) for case, right in told if (wrong := _wrong_at(name, case, right))] == []


@pytest.mark.parametrize("name", CHAINS)
def test_mutant_changes_the_rules_of_its_case(name: str) -> None:
    chains, rule = CHAINS[name]
    edit = MUTANTS[name].proxy.keywords["kernel_table"].keywords["edit"]  # type: ignore[attr-defined]
    marks = [2, 2 | LOCAL_LIST, 60 << 15 | 2, 60 << 15 | 2 | LOCAL_LIST]
    changed = set()
    for family in FAMILIES:
        for chain in (*fixed_chains(family), *(action_chain(family, each) for each in marks)):
            edited: Chain = edit(family, chain)
            different = {*chain.rules} ^ {*edited.rules}
            assert bool(different) == bool(re.fullmatch(chains, chain.name) and different)
            assert all(rule in each.text for each in different)
            assert edited == replace(chain, rules=edited.rules)
            changed |= {chain.name} if different else set()
    assert changed
