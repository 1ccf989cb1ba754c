"""ServiceCIDRs."""

from __future__ import annotations

from reference.apiserver.kinds.strategy import Resource, Strategy


class ServiceCIDRs(Strategy):
    resource = Resource(
        "networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", "servicecidr", namespaced=False, has_status=True
    )
