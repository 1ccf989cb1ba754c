"""Follows one packet: from the client's socket through a node's rules to an endpoint, for evidence, never a verdict."""
