"""The HTTPS server of a kubelet, for logs, exec and port-forward."""
