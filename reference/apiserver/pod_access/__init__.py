"""The subresources that connect to pods. `proxy` connects to the pod itself, the others to the kubelet of its node.

No KEP mentions these subresources. A test run through the API (`--backend kubeconfig`) uses `proxy` for client pods.
"""
