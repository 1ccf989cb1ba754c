"""Nodes, pods and the network between them, as Linux network namespaces (netns) that file descriptors keep alive."""
