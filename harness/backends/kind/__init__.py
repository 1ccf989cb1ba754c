"""Clusters of containers, made by kind and thrown away: real kubelets, kubeadm's control plane, kube-proxy.

Nothing of kind is built in: the command `kind` and a container engine do the work. The cluster is then asked through
its API like anybody's; here is what only its maker can do, which is to make it, to change its components, and to
delete it.
"""
