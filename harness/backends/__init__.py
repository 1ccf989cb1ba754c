"""Backends: the kinds of cluster that scenarios run on."""
