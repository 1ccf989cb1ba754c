"""A grid of scenarios: each cell combines values of the dimensions of routing, and `conformance.oracle` computes the
expected answers."""
