"""Health checks: a node reports its own health, and the number of its endpoints of a Service."""
