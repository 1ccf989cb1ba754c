"""Leases."""

from __future__ import annotations

from reference.apiserver.kinds.strategy import Resource, Strategy


class Leases(Strategy):
    resource = Resource("coordination.k8s.io", "v1", "Lease", "leases", "lease")
