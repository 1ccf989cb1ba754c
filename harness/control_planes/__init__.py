"""Control planes: they serve the Kubernetes API and write EndpointSlices."""
