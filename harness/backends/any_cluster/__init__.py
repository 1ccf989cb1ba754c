"""Runs scenarios on a cluster through its API alone."""
