"""Explanation of a Service's routing: the decision of each node, and the reason for the decision."""
