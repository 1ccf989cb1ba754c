"""Services with session affinity: a client keeps the endpoint that it got, among those that it may use."""
