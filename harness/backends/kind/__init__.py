"""Clusters that kind creates and deletes: real kubelets, kubeadm's control plane, kube-proxy.

Nothing of kind is built in: the command `kind` and a container engine do the work. Scenarios use the cluster through
its API like any other; this package creates it, changes its components, and deletes it.
"""
