"""Requirements for implementations of topology-aware Service routing, by KEP, and the scenarios that test them.

The scenarios never import the reference implementation, so they can test any cluster.
"""
