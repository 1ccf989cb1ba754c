"""Compute the outcome that the KEPs require for a client of a Service: endpoints, no answer, or undefined.

The grid (`conformance/interactions`) has too many cells for tables of expected values that are written by hand, so the
grid uses this oracle. The oracle is written only from the KEPs and the API reference. Each function implements one rule
and cites its section. The oracle does not import the reference, and `tests/conformance/test_oracle.py` checks the
oracle against every literal table of the suite. The oracle ignores releases and feature gates: it assumes that all
features are enabled.

KEP-4444, Changes within kube-proxy: a proxy reads hints and policies, but neither the topology annotation nor
`trafficDistribution`. Therefore no function takes `trafficDistribution`. Callers handle proxies that follow hints only
if the Service requests hints.
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
By = Literal["all endpoints", "zone hints", "node hints", "the node", "termination"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of a Service for one port and one IP family, from any slice. None stands for an absent condition."""

    pod: str
    node: str
    zones: frozenset[str] = frozenset()  # zone hints
    nodes: frozenset[str] = frozenset()  # node hints
    ready: bool | None = True
    serving: bool | None = None
    terminating: bool | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """A client, with the name and the zone of the node whose proxy handles the client's packets."""

    kind: ClientKind
    node: str
    zone: str  # "" for a node without the label


@dataclass(frozen=True, slots=True)
class Policies:
    """The traffic policies of a Service. Both policies default to Cluster (core/v1 ServiceSpec)."""

    internal: Policy = "Cluster"
    external: Policy = "Cluster"


@dataclass(frozen=True, slots=True)
class AllowedPods:
    """All of these pods may answer, and no others. `by` is the rule that selected the pods."""

    pods: frozenset[str]
    by: By


class NoReply(enum.Enum):
    """No endpoint may answer. The value describes what the proxy does with packets or connections."""

    DROPPED = "dropped"
    REFUSED = "refused"
    EITHER = "dropped or refused"


@dataclass(frozen=True, slots=True)
class UndefinedOutcome:
    """The KEPs and the API reference do not define the outcome."""

    why: str


Outcome = AllowedPods | NoReply | UndefinedOutcome


def outcome(
    endpoints: Sequence[Endpoint],
    client: Client,
    *,
    to: AddressKind = "cluster-ip",
    policies: Policies = Policies(),
    reading: Reading = "kep",
) -> Outcome:
    """Return the outcome for a client that connects to an address of this kind.

    `reading` matters where a KEP and released Kubernetes differ (see `_chosen_by_hints`).
    """
    policy = governing(client, to, policies)
    if isinstance(policy, UndefinedOutcome):
        return policy
    return _local(endpoints, client.node) if policy == "Local" else _cluster(endpoints, client, reading)


def governing(client: Client, to: AddressKind, policies: Policies) -> Policy | UndefinedOutcome:
    """Return the traffic policy that applies when this client connects to an address of kind `to`.

    KEP-2086, Proposal: internalTrafficPolicy applies to traffic to the cluster IP. KEP-4444, Intersection with
    internal/externalTrafficPolicy: each policy applies to one direction only. core/v1
    ServiceSpec.externalTrafficPolicy: the policy applies to externally-facing addresses. In-cluster traffic to an
    external IP or load balancer address always has Cluster semantics. In-cluster clients that use a node port "may need
    to take traffic policy into account", which does not define their endpoints. The specifications contradict each
    other about internalTrafficPolicy: Local and in-cluster clients of a node port: KEP-2086 and the table of KEP-4444
    refer to all internal traffic, and core/v1 ServiceSpec.internalTrafficPolicy refers only to the cluster IP.
    """
    inside = client.kind != "external"
    if to == "cluster-ip":
        return (
            policies.internal
            if inside
            else UndefinedOutcome("external clients of a cluster IP (core/v1 ServiceSpec.type)")
        )
    if inside and to == "node-port" and policies.external == "Local":
        return UndefinedOutcome(
            "in-cluster clients of node ports, external policy Local (core/v1 externalTrafficPolicy)"
        )
    if inside and to == "node-port" and policies.internal == "Local":
        return UndefinedOutcome("in-cluster clients of node ports, internal policy Local (KEP-2086, core/v1)")
    return "Cluster" if inside else policies.external


def is_ready(endpoint: Endpoint) -> bool:
    """Return whether an endpoint is ready. An absent condition means true (discovery/v1 EndpointConditions.ready)."""
    return endpoint.ready is not False


def is_usable(endpoint: Endpoint) -> bool:
    """Return whether an endpoint is ready, or terminating and still serving (KEP-1669, Proposal)."""
    return is_ready(endpoint) or bool(endpoint.terminating and endpoint.serving)


def _last_resort(endpoints: Sequence[Endpoint]) -> list[Endpoint] | UndefinedOutcome:
    """Return the terminating endpoints that still serve, for use when no endpoint is ready (KEP-1669, Proposal).

    An absent serving condition defaulted to `ready` at first, and to true later (discovery/v1 EndpointConditions).
    """
    leaving = [each for each in endpoints if not is_ready(each) and each.terminating]
    if any(each.serving is None for each in leaving):
        return UndefinedOutcome(
            "a terminating endpoint without a serving condition (discovery/v1 EndpointConditions.serving)"
        )
    return [each for each in leaving if each.serving]


def _local(endpoints: Sequence[Endpoint], node: str) -> Outcome:
    """Apply the `Local` policy: only endpoints on the node are used, regardless of hints.

    KEP-4444, Topology Aware Routing and InternalTrafficPolicy: there is no failover, and traffic is dropped. KEP-4444,
    Intersection (third row): hints are ignored. KEP-1669, Proposal: a node without ready endpoints uses its terminating
    endpoints, even if other nodes have ready endpoints. If no node has an endpoint, two rules apply: drop packets (this
    node has no endpoint), and refuse connections (no node has one).
    """
    here = [each for each in endpoints if each.node == node]
    if ready := _pods(filter(is_ready, here)):
        return AllowedPods(ready, "the node")
    leaving = _last_resort(here)
    if isinstance(leaving, UndefinedOutcome):
        return leaving
    if leaving:
        return AllowedPods(_pods(leaving), "termination")
    elsewhere = _last_resort(endpoints)
    if any(map(is_ready, endpoints)):
        return NoReply.DROPPED
    return elsewhere if isinstance(elsewhere, UndefinedOutcome) else NoReply.DROPPED if elsewhere else NoReply.EITHER


def _cluster(endpoints: Sequence[Endpoint], client: Client, reading: Reading) -> Outcome:
    """Apply the `Cluster` policy: hints select among ready endpoints. If none is ready, use terminating ones.

    KEP-1669, Proposal: only while no endpoint is ready, all terminating endpoints that serve are used.
    kube-proxy: a Service without usable endpoints refuses connections.
    """
    ready = [each for each in endpoints if is_ready(each)]
    if ready:
        return _chosen_by_hints(ready, ready if reading == "released" else endpoints, client)
    leaving = _last_resort(endpoints)
    if isinstance(leaving, UndefinedOutcome):
        return leaving
    return AllowedPods(_pods(leaving), "termination") if leaving else NoReply.REFUSED


def _chosen_by_hints(ready: Sequence[Endpoint], judged: Sequence[Endpoint], client: Client) -> AllowedPods:
    """Select endpoints by node hints, otherwise by zone hints, and otherwise select all endpoints.

    KEP-3015, Addition of PreferSameNode, defines these three steps and their order. Hints of a kind apply if each
    endpoint has one, and at least one is for the client's node or zone. KEP-2433 (Kube-Proxy), KEP-4444 (Changes
    within kube-proxy) and KEP-3015 require hints on "every endpoint"; released Kubernetes checks only ready endpoints.
    An unready endpoint is never available (KEP-4444, PreferClose; KEP-3015, "if any is available").
    KEP-2433, Kube-Proxy: zone hints require that the proxy can determine its zone.
    """
    mine = [each for each in ready if client.node in each.nodes]
    if mine and all(each.nodes for each in judged):
        return AllowedPods(_pods(mine), "node hints")
    near = [each for each in ready if client.zone and client.zone in each.zones]
    if near and all(each.zones for each in judged):
        return AllowedPods(_pods(near), "zone hints")
    return AllowedPods(_pods(ready), "all endpoints")


def _pods(endpoints: Iterable[Endpoint]) -> frozenset[str]:
    return frozenset(each.pod for each in endpoints)
