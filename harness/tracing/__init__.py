"""Traces one packet from the client through a node's rules to an endpoint: as evidence, never for a verdict."""
