"""The subresources that connect to pods (`proxy`) or to their kubelets (`log` and `exec`). No KEP needs them. Test runs
with `--backend kubeconfig` use `proxy` to reach client pods.
"""
