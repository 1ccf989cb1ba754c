"""EndpointSlices as every controller writes them, whatever the traffic distribution."""
