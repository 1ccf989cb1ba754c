"""The subresources that connect to pods. `proxy` connects to the pod; `log` and `exec` connect to its kubelet.

Test runs with `--backend kubeconfig` use `proxy` to reach client pods. No KEP needs these subresources.
"""
