"""Every address of a Service reaches the endpoints of the Service."""
