"""Combinations of the dimensions of routing: cells of a grid, whose expected values come from `conformance.oracle`."""
