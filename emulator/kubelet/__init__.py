"""The kubelet of the embedded cluster: it runs the pods that clients create through the API."""
