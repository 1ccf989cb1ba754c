"""The EndpointSlice controller: from pods and Services to EndpointSlices with hints."""

from reference.endpointslice.controller import EndpointSliceController

__all__ = ["EndpointSliceController"]
