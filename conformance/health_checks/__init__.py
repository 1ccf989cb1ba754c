"""Health checks: a node reports its own health, and the number of a Service's endpoints that it has."""
