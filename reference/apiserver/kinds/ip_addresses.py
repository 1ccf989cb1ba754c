"""IPAddresses."""

from __future__ import annotations

from reference.apiserver.kinds.strategy import Resource, Strategy


class IPAddresses(Strategy):
    resource = Resource("networking.k8s.io", "v1", "IPAddress", "ipaddresses", "ipaddress", ("ip",), namespaced=False)
