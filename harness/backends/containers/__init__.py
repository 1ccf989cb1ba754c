"""Clusters whose nodes are containers of this machine: asked by packets, from the netns of nodes and pods."""
