"""The requirements on an implementation of Kubernetes topology-aware Service routing, and their scenarios, by KEP.

Nothing here imports the reference: take it away, and these scenarios still judge anybody's cluster.
"""
