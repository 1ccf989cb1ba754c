"""The subresources of pods by which clients outside get inside: `proxy` to a pod, the others to its node's kubelet.

No KEP mentions them; a run through the API (`--backend kubeconfig`) asks its client pods by `proxy` or `portforward`.
"""
