"""Nodes, pods and the network between them as Linux network namespaces, held by file descriptors."""
