"""Clusters whose nodes are containers on this machine: probed with packets from the netns of nodes and pods."""
