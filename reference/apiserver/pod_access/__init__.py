"""The subresources that connect to pods. `proxy` connects to the pod; `log` and `exec` connect to its kubelet.

A test run through the API (`--backend kubeconfig`) uses `proxy` to reach client pods. No KEP needs these subresources.
"""
