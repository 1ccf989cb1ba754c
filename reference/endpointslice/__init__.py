"""The EndpointSlice controller: creates EndpointSlices with hints from pods and Services."""

from reference.endpointslice.controller import EndpointSliceController

__all__ = ["EndpointSliceController"]
