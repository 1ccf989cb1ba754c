"""The embedded cluster that kubectl and Kubernetes' own e2e tests use: kubelet, daemon and `cluster` commands."""
