"""Echo servers and probes: real sockets, each made in the netns of the pod, node or client that it stands for."""
