"""Services with session affinity: a client keeps its endpoint while it may use it."""
