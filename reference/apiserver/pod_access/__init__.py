"""The subresources that connect to pods. `proxy` connects to the pod itself, the others to the kubelet of its node.

A test run through the API (`--backend kubeconfig`) uses `proxy` to reach client pods. No KEP needs these subresources.
"""
