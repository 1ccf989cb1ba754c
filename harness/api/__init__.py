"""The Kubernetes API of a cluster, as scenarios and guests use it."""
