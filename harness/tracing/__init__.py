"""Traces a packet from the client through a node's rules to an endpoint, as evidence only and never for a verdict."""
