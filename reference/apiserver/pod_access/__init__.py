"""How clients outside the cluster's network reach servers in pods: the subresources `proxy` and `portforward` of pods.

No KEP mentions them; a run through the API (`--backend kubeconfig`) asks its client pods by one or the other.
"""
