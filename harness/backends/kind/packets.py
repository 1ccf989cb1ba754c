"""A worker's share of a kind cluster that is asked by packets."""

from __future__ import annotations

from harness.backends.containers.backend import PacketsBackend
from harness.backends.kind.backend import KindBackend


class KindPacketsBackend(PacketsBackend, KindBackend):
    """One worker's share of a kind cluster whose containers are on this machine."""
