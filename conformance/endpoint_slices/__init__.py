"""What every EndpointSlice controller writes, whatever the traffic distribution."""
