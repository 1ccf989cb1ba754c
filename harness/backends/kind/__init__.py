"""Clusters that kind creates and deletes, with real kubelets, kubeadm's control plane and kube-proxy."""
