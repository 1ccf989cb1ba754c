"""Services with session affinity: a client keeps its endpoint as long as the endpoint is allowed."""
