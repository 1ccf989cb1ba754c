"""EndpointSlices."""

from __future__ import annotations

from reference.apiserver.kinds.strategy import Resource, Strategy


class EndpointSlices(Strategy):
    resource = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "endpointslice")
