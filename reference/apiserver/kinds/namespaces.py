"""Namespaces."""

from __future__ import annotations

from reference.apiserver.kinds.strategy import Resource, Strategy


class Namespaces(Strategy):
    resource = Resource("", "v1", "Namespace", "namespaces", "namespace", ("ns",), namespaced=False, has_status=True)
