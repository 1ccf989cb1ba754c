"""Combinations of the dimensions of routing: cells of a grid, with expected values from `conformance.oracle`."""
