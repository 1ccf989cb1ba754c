"""The EndpointSlice controller: pods and Services to EndpointSlices with hints."""
