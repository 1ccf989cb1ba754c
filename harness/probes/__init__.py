"""Echo servers and probes: real sockets, each created in the netns of the pod, node or client that it represents."""
