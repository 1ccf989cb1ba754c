"""What serves the Kubernetes API and writes EndpointSlices."""
