"""Each mutant of a controller is wrong only in the cases that its description names.

`SAID` has, for each mutant, the conditions that trigger its fault and the affected output. A case without one of these
conditions makes the mutant write the same objects as the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import pytest

from mutants import MUTANTS, trigger_times
from reference.endpointslice import EndpointSliceController
from tests.conformance.api_and_dns_requests import REFERENCE
from tests.conformance.controller_cases import ControllerCase, Seen, generated_cases, run_case
from tests.conformance.reduced_controller_cases import WITHOUT

FEW, MOST = 10, 800

ZONES, BY_NODES = "forZones", "forNodes"
HINTS = (ZONES, BY_NODES)
FOLLOWING = {
    "endpoints": {"writes", "events", "conditions", "metrics", *HINTS},
    ZONES: {"writes", "events", "conditions", "metrics"},
    BY_NODES: {"writes", "events", "conditions", "metrics"},
    "writes": {"metrics", "conditions"},
}
"""Maps a kind of output to other kinds that change as a consequence."""


@dataclass(frozen=True)
class FaultScope:
    """The conditions that trigger a mutant's fault, and the kinds of output that are then wrong."""

    needs: tuple[str, ...]
    at: tuple[str, ...] = HINTS


def _auto(*needs: str, at: tuple[str, ...] = (ZONES,)) -> FaultScope:
    return FaultScope(("annotation Auto", *needs), at)


def _by_node(*needs: str, at: tuple[str, ...] = (BY_NODES,)) -> FaultScope:
    return FaultScope(("gate NodeLevelTopology", *needs), at)


SAID: Mapping[str, FaultScope] = {
    # hints that the field requests
    "writes-no-hints": FaultScope(("requests for hints",)),
    "hints-need-three-endpoints": FaultScope(("the field", "fewer than three endpoints")),
    "hints-unasked": FaultScope(("no field",), (ZONES,)),
    "hints-outlive-the-field": FaultScope(("the field", "changes of Services")),
    "first-value-for-ever": FaultScope(("the field", "changes of Services")),
    "hints-unready-endpoints": FaultScope(("requests for hints", "endpoints that are not ready")),
    "one-unlabelled-node-ends-hints": FaultScope(("the field", "nodes without zone")),
    "hints-every-zone": FaultScope(("requests for hints",), (ZONES,)),
    "node-hints-for-every-value": FaultScope(("requests for hints",), (BY_NODES,)),
    "same-node-without-node-hints": FaultScope(("PreferSameNode",), (BY_NODES,)),
    "same-node-without-zone-hints": FaultScope(("PreferSameNode",), (ZONES,)),
    "same-node-needs-a-zone": FaultScope(("PreferSameNode", "nodes without zone"), (BY_NODES,)),
    "knows-only-prefer-close": FaultScope(("PreferSameZone and PreferSameNode",)),
    "local-policy-ends-hints": FaultScope(("the field", "any Local")),
    "annotation-as-the-field": FaultScope(("annotation with the value of the field",), (ZONES,)),
    "any-annotation-hides-the-field": FaultScope(("the field", "annotation")),
    "hints-one-slice-only": FaultScope(("requests for hints", "several ports")),
    "node-hints-outlive-the-field": FaultScope(("PreferSameNode", "changes of Services"), (BY_NODES,)),
    "hints-in-one-family": FaultScope(("requests for hints", "IPv6")),
    "node-zone-read-once": FaultScope(("changes of nodes",), ("endpoints",)),
    "zone-outlives-its-label": FaultScope(("changes of nodes",), ("endpoints",)),
    # endpoints
    "endpoints-without-zone": FaultScope(("nodes with a zone",), ("endpoints",)),
    "references-without-namespace": FaultScope((), ("endpoints",)),
    "terminating-means-ready": FaultScope(("terminating pods",), ("endpoints",)),
    "ignores-publish-not-ready": FaultScope(("publishNotReadyAddresses",), ("endpoints",)),
    "published-means-serving": FaultScope(("publishNotReadyAddresses", "unready pods"), ("endpoints",)),
    "keeps-ended-pods": FaultScope(("ended pods",), ("endpoints",)),
    "keeps-succeeded-pods": FaultScope(("ended pods",), ("endpoints",)),
    "keeps-succeeded-pods-of-policy-always": FaultScope(("ended pods",), ("endpoints",)),
    "keeps-ended-pods-that-are-deleted": FaultScope(("ended pods", "terminating pods"), ("endpoints",)),
    "ready-containers-suffice": FaultScope(("unready pods",), ("endpoints",)),
    "keeps-pods-that-fail-later": FaultScope(("ended pods",), ("endpoints",)),
    "keeps-former-pods": FaultScope(("pods that leave", "changes"), ("endpoints",)),
    "leaves-out-what-does-not-fit": FaultScope(("more endpoints than fit",), ("endpoints",)),
    "overlapping-slices": FaultScope(("several slices",), ("endpoints",)),
    "named-ports-resolve-once": FaultScope(("named ports",), ("endpoints",)),
    "one-family-only": FaultScope(("IPv6",), ("endpoints",)),
    "writes-without-need": FaultScope(("changes",), ("writes",)),
    "rewrites-node-hints": FaultScope(("requests for hints", "changes"), ("writes",)),
    "rewrites-slices-without-ports": FaultScope(("no endpoints", "changes"), ("writes",)),
    "no-selector-means-every-pod": FaultScope(("no selector",), ("endpoints",)),
    "takes-slices-of-others": FaultScope(("slices of others",), ("slices of others", "writes")),
    "ready-by-containers": FaultScope(("containers that are ready before their pod",), ("endpoints",)),
    "takes-hints-back": FaultScope(("the field",)),
    # hints by CPU
    "copies-the-own-zone": _auto(),
    "keeps-every-own-zone": _auto(),
    "forgets-who-is-in-the-zone": _auto(),
    "needs-more-endpoints-than-zones": _auto(),
    "hints-in-one-zone": _auto("nodes of one zone"),
    "shares-out-each-slice": _auto("several slices"),
    "counts-endpoints-by-port": _auto("several ports"),
    "counts-unready-endpoints": _auto("endpoints that are not ready"),
    "guesses-unknown-zones": _auto("nodes without zone", at=("endpoints", ZONES)),
    "takes-the-other-thresholds": _auto(),
    "counts-nodes-instead-of-cores": _auto("CPU"),
    "reads-cpu-in-thousandths-only": _auto("nodes with a zone"),
    "counts-control-plane-nodes": _auto("nodes of the control plane"),
    "counts-unready-nodes": _auto("nodes that are not ready"),
    "leaves-out-nodes-without-zone": _auto("nodes without zone"),
    "counts-nodes-without-zone-as-a-zone": _auto("nodes without zone"),
    "moves-whole-surpluses-only": _auto(),
    "node-hints-outlive-the-annotation": _auto("PreferSameNode", "changes of Services", at=(BY_NODES,)),
    "leaves-out-nodes-without-cpu": _auto("nodes without CPU"),
    "first-refusal-for-ever": _auto("changes"),
    "never-withdraws": _auto("changes"),
    "deaf-to-nodes": _auto("added, removed or changed nodes"),
    "rewrites-at-node-events": _auto("added, removed or changed nodes", at=("writes",)),
    "rewrites-slices-that-stand": _auto("several slices", "changes", at=("writes",)),
    "writes-every-slice-twice": FaultScope(("changes",), ("writes",)),
    "tells-nobody-of-hints": _auto(at=("events",)),
    "tells-of-trouble-only": _auto(at=("events",)),
    "tells-without-a-cause": _auto(at=("events",)),
    "tells-the-first-news-only": _auto(at=("events",)),
    "auto-counts-as-disabled": _auto(at=("metrics",)),
    # situations
    "terminating-pod-serves-anyhow": FaultScope(("terminating pods",), ("endpoints",)),
    "lost-pod-holds-up-its-service": FaultScope(("missing nodes",), ("endpoints",)),
    "lost-pod-keeps-its-zone": FaultScope(("added, removed or changed nodes",), ("endpoints",)),
    "lost-pod-ends-hints": FaultScope(("requests for hints", "missing nodes")),
    "second-family-is-frozen": FaultScope(("IPv6", "changes"), ("endpoints",)),
    "leaves-out-every-lost-pod": FaultScope(("publishNotReadyAddresses", "missing nodes"), ("endpoints",)),
    "never-empties-a-slice": FaultScope(("several slices", "changes"), ("endpoints",)),
    "refused-annotation-falls-through": _auto("the field", at=HINTS),
    "takes-over-what-names-its-service": FaultScope(("slices of others",), ("slices of others", "writes")),
    "writes-hinted-slices-twice": FaultScope(("requests for hints",), ("writes",)),
    "rewrites-at-any-node-event": FaultScope(("added, removed or changed nodes",), ("writes",)),
    "does-nothing": FaultScope((), ("endpoints",)),
    "adds-hints-up-to-19-percent": _auto(),
    "adds-hints-at-20-percent": _auto(),
    "adds-hints-up-to-21-percent": _auto(),
    "keeps-hints-up-to-29-percent": _auto("changes"),
    "keeps-hints-up-to-31-percent": _auto("changes"),
    "forgets-hints-when-slices-change": _auto("changes"),
    "zone-outlives-its-nodes": _auto("added, removed or changed nodes"),
    "reads-zones-of-nodes-once": _auto("changes of nodes"),
    "own-zone-first-at-first-only": _auto("changes"),
    "judges-each-slice-alone": _auto("changes"),
    "added-counts-as-removed": FaultScope((), ("metrics",)),
    "a-slice-for-each-zone": FaultScope(("requests for hints",), ("writes",)),
    "counts-capacity": _auto("nodes with a zone"),
    "shares-out-unasked": FaultScope((), HINTS),
    "unready-endpoints-end-the-hysteresis": _auto("endpoints that are not ready"),
    "tells-nobody-of-the-first-refusal": _auto(at=("events",)),
    "terminating-pods-are-not-published": FaultScope(("publishNotReadyAddresses", "terminating pods"), ("endpoints",)),
    "adds-to-full-slices": FaultScope((), ("writes",)),
    "unready-endpoints-need-no-room": FaultScope(("unready pods",), ("writes",)),
    # changes
    "publishing-is-frozen": FaultScope(("publishNotReadyAddresses", "changes of Services"), ("endpoints",)),
    "selector-is-frozen": FaultScope(("changes of Services",), ("endpoints",)),
    # releases
    "newest-controller-at-any-release": FaultScope(("older releases",)),
    "oldest-controller-at-any-release": FaultScope(("newer releases",)),
    "field-before-annotation": FaultScope(("the field", "annotation")),
    "field-before-annotation-from-1-30": FaultScope(("the field", "annotation", "releases from 1.30 on")),
    "knows-one-spelling-of-auto": FaultScope(("annotation auto",)),
    "knows-the-newer-annotation-only": FaultScope(("the older annotation",)),
    "annotation-outlives-itself": _auto("changes of Services", at=HINTS),
    "prefer-close-becomes-same-node": FaultScope(("PreferClose",), (BY_NODES,)),
    "hints-outlive-their-gate": FaultScope(("requests for hints", "changes")),
    "hints-new-endpoints-only": FaultScope(("requests for hints", "changes")),
    # restarts
    "trusts-resource-versions": FaultScope(("servers of another release",), ("endpoints", *HINTS)),
    "rewrites-slices-at-any-start": FaultScope(("restarts",), ("writes",)),
    "knows-only-what-changes": FaultScope(("objects that already exist",), ("endpoints",)),
    "watches-once": FaultScope(("outages",), ("endpoints",)),
    # metrics
    "controller-metrics-never-change": FaultScope((), ("metrics",)),
    "failures-count-as-successes": FaultScope(("missing nodes",), ("metrics",)),
    "successes-count-as-failures": FaultScope((), ("metrics",)),
    "changed-slices-without-labels": FaultScope(("values that count in metrics",), ("metrics",)),
    "changed-slices-without-approach": FaultScope((), ("metrics",)),
    "counts-changed-syncs": FaultScope(("several slices",), ("metrics",)),
    "forgets-to-uncount": FaultScope(("changes",), ("metrics",)),
    "counts-services-at-first-sight": FaultScope(("changes of Services",), ("metrics",)),
    "counts-annotated-services": FaultScope(("annotation Auto", "changes of Services"), ("metrics",)),
    # Events and conditions
    "tells-nobody-of-failures": FaultScope(("missing nodes",), ("events",)),
    "tells-of-the-first-failure-only": FaultScope(("missing nodes", "changes"), ("events",)),
    "failures-are-normal-events": FaultScope(("missing nodes",), ("events",)),
    "failures-are-events-of-the-slice": FaultScope(("missing nodes",), ("events",)),
    "says-accepted-of-anything": FaultScope(("the field",), ("conditions",)),
    "says-accepted-of-nothing": FaultScope(("the field",), ("conditions",)),
    "says-programmed-when-accepted": FaultScope(("the field",), ("conditions",)),
    "says-programmed-of-refused-slices": FaultScope(("the field",), ("conditions",)),
    "annotation-ends-acceptance": FaultScope(("the field", "annotation Auto"), ("conditions",)),
    "says-honored-when-programmed": FaultScope(("the field",), ("conditions",)),
    "says-honored-of-nothing": FaultScope(("the field",), ("conditions",)),
    "conditions-outlive-the-field": FaultScope(("the field", "changes of Services"), ("conditions",)),
    "condition-without-domain": FaultScope(("the field",), ("conditions",)),
    # heuristics
    "domains-mean-prefer-close": FaultScope(("values with a domain",), (ZONES,)),
    "knows-no-heuristics": FaultScope(("heuristics",), (ZONES,)),
    "hints-of-a-heuristic-cut-short": FaultScope(("heuristics",), (ZONES,)),
    # node-level topology
    "knows-no-node-level-topology": _by_node(),
    "node-level-without-its-gate": FaultScope(("gate NodeLevelTopology off",), (BY_NODES,)),
    "node-level-unasked": _by_node("no annotation Node", "manual"),
    "node-level-replaces-other-hints": _by_node(at=(ZONES,)),
    "one-missing-node-too-many": _by_node("a limit on missing nodes"),
    "percentage-as-number": _by_node("a limit on missing nodes", "a percentage"),
    "counts-nodes-once": _by_node("a limit on missing nodes", "added, removed or changed nodes"),
    "any-daemon-set-will-do": _by_node("a criterion of DaemonSets", "DaemonSets"),
    "one-pod-of-a-daemon-set-will-do": _by_node("a criterion of DaemonSets", "DaemonSets", "pods of others"),
    "one-criterion-suffices": _by_node("a criterion of DaemonSets", "a limit on missing nodes"),
    "opt-in-asks-nobody": _by_node("opt-in"),
    "opt-in-looks-at-no-endpoint": _by_node("opt-in"),
    "opt-out-is-ignored": _by_node("opt-out", "annotation"),
    "node-level-for-ever": _by_node("annotation Node", "changes of Services", "manual"),
}

_OF_OTHERS = "in these cases only the controller writes slices, and only tests write host name labels"
_IN_TIME = "it is wrong only after some time, or after more changes than a case has"

OTHERWISE: Mapping[str, str] = {
    "ended-pods-keep-their-addresses": "no pod in these cases has the address of another pod",
    "node-hints-for-the-first-port-numbers": "all pods of these cases have the same port numbers",
    "pod-without-named-ports-empties-a-service": "all pods of these cases have the named ports",
    "pods-without-the-named-port-fail-the-sync": "all pods of these cases have the named ports",
    "condition-has-the-time-of-its-write": "the cases do not compare times of conditions",
    "condition-keeps-its-first-time": "the cases do not compare times of conditions",
    "programmed-by-zone-hints-alone": "no API server in these cases drops hints",
    "selectors-need-values": "all selectors of these cases have values",
    "relabelled-pods-lose-their-node": "the cases compare plans, and the fault is in the events of pods",
    "labels-of-unready-pods-are-read-once": "the cases compare plans, and the fault is in the events of pods",
    "init-containers-name-ports": "no pod in these cases has init containers",
    "controller-crashes-on-pods-of-strange-nodes": "it exits, and the existing state remains",
    "controller-hangs-on-pods-of-strange-nodes": "it hangs, and the existing state remains",
    "gets-nodes-for-hints": "it reads more objects, and writes the same as the reference",
    "watches-namespaces-from-the-first-hint": "it reads more objects, and writes the same as the reference",
    "keeps-the-hints-of-full-slices": "no Service in these cases has 100 endpoints",
    "knows-nodes-by-their-uid": "Nodes in these cases have no uid",
    "first-label-alone-selects": "selectors in these cases have one label",
    "hints-by-host-name": _OF_OTHERS,
    "looks-away-from-its-slices": _OF_OTHERS,
    "families-are-frozen": "no Service in these cases changes its families",
    "protocols-of-slices-are-frozen": "no protocol changes in these cases",
    "right-then-wrong-later": _IN_TIME,
    "right-then-wrong-soon": _IN_TIME,
    "selects-in-every-namespace": "all objects of a case are in one namespace",
    "target-ports-are-frozen": "no target port changes in these cases",
    "tires-after-a-hundred-changes": _IN_TIME,
    "tires-after-a-thousand-changes": _IN_TIME,
    "local-policy-ends-hints-later": "it is delayed by a thread; afterwards it behaves like local-policy-ends-hints",
    **{
        f"keeps-failed-pods{whose}": "no pod in these cases has failed"
        for whose in ("", "-of-policy-always", "-of-policy-onfailure", "-of-policy-never")
    },
    "counts-nodes-of-unknown-readiness": "the readiness of each node in these cases is known",
    "leaves-out-pending-pods": "no pod in these cases is pending",
    "leaves-out-pods-of-unknown-phase": "the phase of each pod in these cases is known",
    "no-condition-means-ready": "each pod in these cases has the condition",
    "pending-pods-are-never-ready": "no pod in these cases is pending",
    "unknown-means-ready": "the readiness of each pod in these cases is known",
    "one-family-unless-two-are-required": "no Service in these cases prefers both families",
    "addresses-of-pods-are-frozen": "no pod in these cases changes its addresses",
    "one-pod-an-address": "pods in these cases have different addresses",
    "adopts-slices-by-name": "no Service in these cases is made again",
    "control-plane-labels-have-no-value": "the labels of control plane nodes in these cases have no value",
    "deleted-slices-stay-away": _OF_OTHERS,
    "compares-managers-by-prefix": "the managers of others in these cases have quite different names",
    "hostname-in-every-service": "no pod in these cases has a subdomain",
    "named-ports-of-any-protocol": "the container ports of one name in these cases have one protocol",
    "pods-have-no-hostnames": "no pod in these cases has a hostname",
    "deletes-slices-without-a-manager": "slices of others in these cases have a manager",
    "labels-of-services-come-late": "no label of a Service changes in these cases",
    "endpoints-of-any-type": "no Service in these cases is of type ExternalName",
    **dict.fromkeys(
        (each.name for each in trigger_times.MUTANTS if "controller" in each.changes),
        "the cases do not compare annotations of slices",
    ),
    "tells-of-failures-with-the-field-alone": "no sync fails in these cases",
}
"""Mutants of controllers that these cases cannot distinguish from the reference, with reasons."""


@cache
def _all() -> list[ControllerCase]:
    return generated_cases(MOST)


@cache
def _reference_output(number: int, need: str = "", *, counted: bool) -> tuple[ControllerCase, list[Seen]]:
    """Return a case without the condition `need`, and the output of the reference for it."""
    case = WITHOUT[need](_all()[number]) if need else _all()[number]
    return case, run_case(REFERENCE.controller, case, counted=counted)


def _counts(name: str) -> bool:
    """Return whether to compare the metrics of a mutant, which is slow."""
    return "metrics" in SAID[name].at


def _wrong_at(name: str, case: ControllerCase, right: list[Seen]) -> set[str]:
    wrong: set[str] = set()
    its_own = run_case(MUTANTS[name].controller, case, counted=_counts(name))
    for mine, its in zip(right, its_own, strict=True):
        if mine != its:
            wrong |= {str(key[0]) for key in mine.keys() | its.keys() if mine.get(key) != its.get(key)}
    return wrong


def test_every_controller_mutant_has_a_case() -> None:
    of_controllers = {name for name, each in MUTANTS.items() if each.controller is not EndpointSliceController}
    assert of_controllers - SAID.keys() - OTHERWISE.keys() == set()


@pytest.mark.parametrize("name", SAID)
def test_mutant_is_wrong_where_its_case_says(name: str) -> None:
    wrong, said = set[str](), {*SAID[name].at}
    follows = set().union(*(FOLLOWING.get(each, ()) for each in said)) - said
    for number in range(MOST):
        if number >= FEW and wrong >= said:
            break
        wrong |= _wrong_at(name, *_reference_output(number, counted=_counts(name)))
    assert wrong - follows == said


@pytest.mark.parametrize(("name", "need"), [(name, need) for name, said in SAID.items() for need in said.needs])
def test_mutant_is_right_without_its_trigger(name: str, need: str) -> None:
    told = [_reference_output(number, need, counted=_counts(name)) for number in range(FEW)]
    assert [(case, wrong) for case, right in told if (wrong := _wrong_at(name, case, right))] == []
