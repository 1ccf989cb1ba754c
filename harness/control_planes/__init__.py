"""Control planes, which serve the Kubernetes API and write EndpointSlices."""
