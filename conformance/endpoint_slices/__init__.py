"""Rules for EndpointSlices that apply to every controller, regardless of the traffic distribution."""
