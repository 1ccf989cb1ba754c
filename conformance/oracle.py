"""What the documents expect for a client of a Service: its endpoints, no answer, or undefined.

The grid (`conformance/interactions`) has too many cells to read their expected values off a document by hand, so it
computes them here. This module is written from the documents alone, one rule per function, each with its section. It
imports nothing, in particular not the reference, and `tests/conformance/test_oracle.py` checks it against every literal
table of the suite. It ignores releases and feature gates: it describes a component with all features.

KEP-4444, Changes within kube-proxy: a proxy reads hints and policies, and neither the annotation nor
`trafficDistribution`. So the latter is not an argument here; callers handle proxies that follow hints only if a Service
requests them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

AddressKind = Literal["cluster-ip", "node-port", "load-balancer", "external-ip"]
ClientKind = Literal["pod", "node", "external"]
Policy = Literal["Cluster", "Local"]
Reading = Literal["kep", "released"]
By = Literal["everybody", "zone hints", "node hints", "the node", "termination"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of one port and one family, over all slices; a condition that is `None` is not written."""

    pod: str
    node: str
    zones: frozenset[str] = frozenset()  # hints
    nodes: frozenset[str] = frozenset()  # hints
    ready: bool | None = True
    serving: bool | None = None
    terminating: bool | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """A client, and the node at which its packets meet the Service, with the zone of that node."""

    kind: ClientKind
    node: str
    zone: str  # "" for a node without the label


@dataclass(frozen=True, slots=True)
class Policies:
    """The traffic policies of a Service; both default to Cluster (core/v1 ServiceSpec)."""

    internal: Policy = "Cluster"
    external: Policy = "Cluster"


@dataclass(frozen=True, slots=True)
class Answers:
    """Each of these pods may answer, and no other; `by` says what chose them."""

    pods: frozenset[str]
    by: By


class Silence(enum.Enum):
    """Nobody answers."""

    DROPPED = "dropped"
    REFUSED = "refused"
    EITHER = "dropped or refused"


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """The documents do not say."""

    why: str


Outcome = Answers | Silence | LeftOpen


def outcome(
    endpoints: Sequence[Endpoint],
    client: Client,
    *,
    to: AddressKind = "cluster-ip",
    policies: Policies = Policies(),
    reading: Reading = "kep",
) -> Outcome:
    """Return the outcome for a client at an address of this kind.

    `reading` matters where a KEP's text and released Kubernetes differ (see `_chosen_by_hints`).
    """
    policy = governing(client, to, policies)
    if isinstance(policy, LeftOpen):
        return policy
    return _local(endpoints, client.node) if policy == "Local" else _cluster(endpoints, client, reading)


def governing(client: Client, to: AddressKind, policies: Policies) -> Policy | LeftOpen:
    """Return the policy that holds for a client at an address.

    KEP-2086, Proposal: internalTrafficPolicy is for traffic at the cluster IP.
    KEP-4444, Intersection with internal/externalTrafficPolicy: a policy governs one direction, and not the other.
    core/v1 ServiceSpec.externalTrafficPolicy: it is for the addresses that face outwards; traffic to an external IP or
    a load balancer address from within the cluster has Cluster semantics in any case, and clients within that use a
    node port "may need to take traffic policy into account", which does not say what they get.
    """
    inside = client.kind != "external"
    if to == "cluster-ip":
        return policies.internal if inside else LeftOpen("a cluster IP from outside (core/v1 ServiceSpec.type)")
    if inside and to == "node-port" and policies.external == "Local":
        return LeftOpen("node ports with externalTrafficPolicy Local, from within (core/v1 externalTrafficPolicy)")
    return "Cluster" if inside else policies.external


def is_ready(endpoint: Endpoint) -> bool:
    """discovery/v1 EndpointConditions.ready: one that is not written counts as true."""
    return endpoint.ready is not False


def is_usable(endpoint: Endpoint) -> bool:
    """Whether some client may be sent to it: it is ready, or it terminates and still serves (KEP-1669, Proposal)."""
    return is_ready(endpoint) or bool(endpoint.terminating and endpoint.serving)


def _last_resort(endpoints: Sequence[Endpoint]) -> list[Endpoint] | LeftOpen:
    """KEP-1669, Proposal: where no endpoint is ready, those that terminate and still serve.

    discovery/v1 EndpointConditions.serving, if it is not written, was the ready condition first, and is true later.
    """
    leaving = [each for each in endpoints if not is_ready(each) and each.terminating]
    if any(each.serving is None for each in leaving):
        return LeftOpen("a terminating endpoint without serving condition (discovery/v1 EndpointConditions.serving)")
    return [each for each in leaving if each.serving]


def _local(endpoints: Sequence[Endpoint], node: str) -> Outcome:
    """Policy Local: endpoints of the node alone, whatever their hints.

    KEP-4444, Topology Aware Routing and InternalTrafficPolicy: no failover, traffic is dropped.
    KEP-4444, Intersection (third row): hints have no say.
    KEP-1669, Proposal: on a node without ready endpoints, its terminating ones, though others are ready elsewhere.
    Where no node has an endpoint the documents have both: no endpoint here (drop), none at all (refuse).
    """
    here = [each for each in endpoints if each.node == node]
    if ready := _pods(filter(is_ready, here)):
        return Answers(ready, "the node")
    leaving = _last_resort(here)
    if isinstance(leaving, LeftOpen):
        return leaving
    if leaving:
        return Answers(_pods(leaving), "termination")
    elsewhere = _last_resort(endpoints)
    if any(map(is_ready, endpoints)):
        return Silence.DROPPED
    return elsewhere if isinstance(elsewhere, LeftOpen) else Silence.DROPPED if elsewhere else Silence.EITHER


def _cluster(endpoints: Sequence[Endpoint], client: Client, reading: Reading) -> Outcome:
    """Policy Cluster: ready endpoints, those that hints choose; the last resort, whatever its hints; else a refusal.

    KEP-1669, Proposal: terminating ones only while no endpoint is ready, and then all that serve.
    kube-proxy: a Service without usable endpoints refuses.
    """
    ready = [each for each in endpoints if is_ready(each)]
    if ready:
        return _chosen_by_hints(ready, ready if reading == "released" else endpoints, client)
    leaving = _last_resort(endpoints)
    if isinstance(leaving, LeftOpen):
        return leaving
    return Answers(_pods(leaving), "termination") if leaving else Silence.REFUSED


def _chosen_by_hints(ready: Sequence[Endpoint], judged: Sequence[Endpoint], client: Client) -> Answers:
    """Hints for the node, else hints for the zone, else everybody.

    KEP-3015, Addition of PreferSameNode: the three steps, in this order. A step is taken if each endpoint has such a
    hint, and one names the client's node or zone. The texts of KEP-2433 (Kube-Proxy), KEP-4444 (Changes within
    kube-proxy) and KEP-3015 say "every endpoint"; released Kubernetes judges ready ones alone. One that is not ready is
    not available, whatever its hints (KEP-4444, PreferClose; KEP-3015, "if any is available").
    KEP-2433, Kube-Proxy: hints for zones need a proxy that is able to determine its zone.
    """
    mine = [each for each in ready if client.node in each.nodes]
    if mine and all(each.nodes for each in judged):
        return Answers(_pods(mine), "node hints")
    near = [each for each in ready if client.zone and client.zone in each.zones]
    if near and all(each.zones for each in judged):
        return Answers(_pods(near), "zone hints")
    return Answers(_pods(ready), "everybody")


def _pods(endpoints: Iterable[Endpoint]) -> frozenset[str]:
    return frozenset(each.pod for each in endpoints)
