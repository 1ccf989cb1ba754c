"""The explanation of a Service's routing: the decision of each node, and its reason."""
