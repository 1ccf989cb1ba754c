"""A grid of scenarios: cells combine values of the dimensions of routing. `conformance.oracle` computes the answers."""
