"""Compiles Kubernetes components from their Go modules."""
