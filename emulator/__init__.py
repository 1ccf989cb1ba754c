"""The embedded cluster for kubectl and Kubernetes' e2e tests: kubelet, daemon and `cluster` commands."""
