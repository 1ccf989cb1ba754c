"""Backends: the ways in which a cluster exists."""
