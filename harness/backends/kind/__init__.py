"""Clusters of containers, made by kind and thrown away: real kubelets, kubeadm's control plane, kube-proxy.

Nothing of kind is built in: the command `kind` and a container engine do the work. Scenarios then use the cluster
through its API like any other; this package makes it, changes its components, and deletes it.
"""
