"""The pod subresources `proxy` (with which `--backend kubeconfig` reaches client pods), `log` and `exec`."""
