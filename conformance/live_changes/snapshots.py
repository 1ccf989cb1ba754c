"""Snapshots of a Service at one moment and port, so that one check covers its former and current addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trafficdist import (
    NO_ANSWER,
    ClientRef,
    Cluster,
    Pod,
    Port,
    Question,
    Rates,
    Service,
    Traffic,
    expect_concurrent_traffic,
)

# A change takes effect or not, so the scenario tests only for a large fault.
RATES = Rates(leak=0.25)

ASKED_FROM = ("a1", "c1")

NOBODY: Traffic = dict.fromkeys(ASKED_FROM, NO_ANSWER)

UNUSED = 7070
"""A port on which no server listens."""


def as_now(service: Service, port: Port | None = None) -> Service:
    """Return a snapshot of the Service, for clients at this port."""
    return replace(service, ports=(port,) if port else service.ports)


def by_all(*pods: Pod, of: Iterable[ClientRef] = ASKED_FROM) -> Traffic:
    """Return that these clients, by default pods in two zones, reach each of these pods."""
    return {who: set(pods) for who in of}


def expect_now(cluster: Cluster, *questions: Question) -> None:
    """Check all of these at once."""
    expect_concurrent_traffic(cluster, questions, rates=RATES)


def ports_of(ports: Sequence[Port]) -> dict[str, object]:
    """Return the patch that gives a Service these ports and no others."""
    return {"spec": {"ports": [each.manifest() for each in ports]}}


def give_node_port(cluster: Cluster, service: Service, *, like: Service) -> None:
    """Give a Service with one port the number that another Service has, or had, for its node port."""
    (port,) = service.ports
    numbered = {**port.manifest(), "nodePort": like.node_port(port)}
    cluster.patch_service(service, {"spec": {"ports": [numbered]}})
