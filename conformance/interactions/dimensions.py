"""The dimensions of the grid, and the values that cannot be combined, with reasons.

A cell has one value for each dimension. SCTP is missing because the probes of the suite support only TCP and UDP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Cell = Mapping[str, Any]
"""Maps dimensions to values. Some cells are partial: they have values for only some dimensions."""

DIMENSIONS: Mapping[str, tuple[Any, ...]] = {
    "endpoints": (0, 1, 3, 12, 120, 1200),
    "hints": ("none", "zone", "node", "both", "partial", "foreign"),
    "conditions": ("ready", "unwritten", "one starts", "one leaves", "all start", "all leave"),
    "distribution": (None, "PreferClose", "PreferSameZone", "PreferSameNode"),
    "address": ("cluster-ip", "node-port", "load-balancer", "external-ip"),
    "client": ("pod", "node", "external"),
    "internal": ("Cluster", "Local"),
    "external": ("Cluster", "Local"),
    "family": ("IPv4", "IPv6"),
    "protocol": ("TCP", "UDP"),
    "affinity": ("None", "ClientIP"),
    "target": ("number", "name"),
}

_IMPOSSIBLE: tuple[tuple[str, Mapping[str, Iterable[Any]]], ...] = (
    ("a cluster IP has no route from outside", {"address": ["cluster-ip"], "client": ["external"]}),
    (
        "core/v1 leaves open what clients inside get at a node port with externalTrafficPolicy Local",
        {"address": ["node-port"], "client": ["pod", "node"], "external": ["Local"]},
    ),
    (
        "documents contradict each other about clients inside at a node port with internalTrafficPolicy Local",
        {"address": ["node-port"], "client": ["pod", "node"], "internal": ["Local"]},
    ),
    (
        "a proxy may serve node ports only at addresses of one family (--nodeport-addresses)",
        {"address": ["node-port"], "family": ["IPv6"]},
    ),
    (
        "a proxy may ignore hints of a Service that requests none",
        {"distribution": [None], "hints": ["zone", "node", "both", "partial", "foreign"]},
    ),
    (
        "a proxy may ignore hints for nodes if the Service requests zones",
        {"distribution": ["PreferClose", "PreferSameZone"], "hints": ["node", "both"]},
    ),
    (
        "no endpoint has hints if there is none",
        {"endpoints": [0], "hints": ["zone", "node", "both", "partial", "foreign"]},
    ),
    (
        "no endpoint has conditions if there is none",
        {"endpoints": [0], "conditions": ["unwritten", "one starts", "one leaves", "all start", "all leave"]},
    ),
    ("there is only one endpoint", {"endpoints": [1], "conditions": ["one starts", "one leaves"]}),
    ("one endpoint cannot have partial hints", {"endpoints": [1], "hints": ["partial"]}),
    ("pods differ in their ports if there are several", {"endpoints": [0, 1], "target": ["name"]}),
    (
        "this many endpoints are twelve pods with many ports each, so their port numbers differ",
        {"endpoints": [120, 1200], "target": ["number"]},
    ),
)

BOUND = tuple(name for name in DIMENSIONS if any(name in values for _, values in _IMPOSSIBLE))
"""Dimensions with values that cannot be combined with some values of other dimensions."""


def why_impossible(cell: Cell) -> str:
    return first_reason(_IMPOSSIBLE, cell)


def first_reason(reasons: Iterable[tuple[str, Mapping[str, Iterable[Any]]]], cell: Cell) -> str:
    """Return the first reason whose values occur in a cell, or "" if there is no such reason."""
    for why, values in reasons:
        if all(name in cell and cell[name] in among for name, among in values.items()):
            return why
    return ""
