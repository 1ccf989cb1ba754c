"""Scenarios on a cluster that is reached by its API alone."""
