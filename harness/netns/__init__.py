"""Network namespaces (netns) for nodes, pods and the fabric between them. A file descriptor keeps each netns alive."""
