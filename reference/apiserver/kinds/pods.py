"""Pods."""

from __future__ import annotations

from reference.apiserver.kinds.strategy import Resource, Strategy


class Pods(Strategy):
    resource = Resource("", "v1", "Pod", "pods", "pod", ("po",), has_status=True, categories=("all",))
