"""The subresources of pods that connect to them: `proxy` to the pod, the others to its node's kubelet.

No KEP mentions these subresources. A run through the API (`--backend kubeconfig`) uses `proxy` or `portforward` to
reach its client pods.
"""
