"""What must be true of an implementation of Kubernetes topology-aware Service routing, by KEP.

Nothing here imports the reference: take it away, and these scenarios still judge anybody's cluster.
"""
