"""How a cluster exists."""
