"""Clusters whose nodes are containers on this machine. Probes are packets from the netns of nodes and pods."""
