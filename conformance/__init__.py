"""Requirements for implementations of Kubernetes topology-aware Service routing, and their scenarios, by KEP.

The scenarios never import the reference implementation, so they can test any cluster.
"""
