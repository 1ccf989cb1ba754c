"""Services with session affinity: a client keeps its endpoint while the endpoint is allowed."""
