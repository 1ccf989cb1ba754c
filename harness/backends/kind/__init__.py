"""Clusters that kind creates and deletes, with real kubelets, kubeadm's control plane and kube-proxy.

The suite contains no code of kind: it uses the command `kind` and a container engine. Scenarios use the cluster through
its API like any other cluster. This package creates the cluster, changes its components, and deletes it.
"""
