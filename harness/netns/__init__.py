"""Linux network namespaces (netns) for nodes, pods and the fabric between them. File descriptors keep netns alive."""
