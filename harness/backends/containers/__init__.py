"""Clusters whose nodes are containers on this machine. Probes are sent from the netns of nodes and pods."""
