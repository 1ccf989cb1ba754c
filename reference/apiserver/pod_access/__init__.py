"""The subresources of pods that connect to them: `proxy` to the pod, the others to its node's kubelet.

No KEP mentions them. A run through the API (`--backend kubeconfig`) reaches its client pods by `proxy` or
`portforward`.
"""
