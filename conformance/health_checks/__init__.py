"""What a node says of its own health, and of the endpoints of a Service that it has."""
