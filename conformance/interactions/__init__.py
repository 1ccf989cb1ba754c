"""How the dimensions of routing act together: cells of a grid, with expected values from `conformance.oracle`."""
