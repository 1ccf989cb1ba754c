"""Runs scenarios on a cluster, using only its API."""
