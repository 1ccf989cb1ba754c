"""What a kubelet does on the embedded cluster: it runs the pods that others create through its API."""
