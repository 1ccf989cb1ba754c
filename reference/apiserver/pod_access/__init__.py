"""The subresources `proxy` and `portforward` of pods, by which clients outside reach servers in pods.

No KEP mentions them; a run through the API (`--backend kubeconfig`) asks its client pods by one or the other.
"""
