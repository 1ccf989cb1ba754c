"""Explain which endpoints each node uses for a Service, and why."""
