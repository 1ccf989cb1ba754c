"""Requests to a cluster's Kubernetes API."""
