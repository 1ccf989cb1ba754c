"""Compile Kubernetes components from their Go modules."""
