"""Linux network namespaces (netns) for nodes, pods and the network between them. File descriptors keep them alive."""
