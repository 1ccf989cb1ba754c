"""Snapshots of a Service, so that one check can cover its former and its current addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trafficdist import (
    NO_ANSWER,
    ClientRef,
    Cluster,
    ExpectedTraffic,
    Pod,
    Port,
    Rates,
    Service,
    Traffic,
    expect_concurrent_traffic,
)

# A change either takes effect or does not, so the probes need to detect only large faults.
RATES = Rates(leak=0.25)

ASKED_FROM = ("a1", "c1")

NOBODY: Traffic = dict.fromkeys(ASKED_FROM, NO_ANSWER)

UNUSED = 7070
"""A port on which no server listens."""


def as_now(service: Service, port: Port | None = None) -> Service:
    """Return a copy of the Service in its current state, optionally with only one port."""
    return replace(service, ports=(port,) if port else service.ports)


def by_all(*pods: Pod, of: Iterable[ClientRef] = ASKED_FROM) -> Traffic:
    """Return a table in which these clients (by default pods in two zones) reach all of these pods."""
    return {who: set(pods) for who in of}


def expect_now(cluster: Cluster, *questions: ExpectedTraffic) -> None:
    """Expect all this traffic at the same time."""
    expect_concurrent_traffic(cluster, questions, rates=RATES)


def ports_of(ports: Sequence[Port]) -> dict[str, object]:
    """Return a patch that replaces the ports of a Service."""
    return {"spec": {"ports": [each.manifest() for each in ports]}}


def give_node_port(cluster: Cluster, service: Service, *, like: Service) -> None:
    """Set the node port of a Service with one port to the current or former node port of the Service `like`."""
    (port,) = service.ports
    numbered = {**port.manifest(), "nodePort": like.node_port(port)}
    cluster.patch_service(service, {"spec": {"ports": [numbered]}})
