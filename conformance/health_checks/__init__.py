"""Health checks by load balancers: a proxy reports its own health, and the number of local endpoints of a Service."""
