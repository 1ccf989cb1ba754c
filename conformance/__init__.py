"""Requirements on implementations of Kubernetes topology-aware Service routing, and their scenarios, by KEP.

Nothing here imports the reference, so these scenarios can judge any cluster without it.
"""
