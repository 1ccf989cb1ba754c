"""Services."""

from __future__ import annotations

from collections.abc import Sequence

from reference.apiserver.kinds.strategy import Resource, Strategy


class Services(Strategy):
    resource = Resource("", "v1", "Service", "services", "service", ("svc",), has_status=True, categories=("all",))

    def __init__(self, families: Sequence[str] = ("IPv4", "IPv6")) -> None:
        self.families = tuple(families)
