"""The HTTPS server of a kubelet, for logs and exec."""
