"""Control planes. They serve the Kubernetes API and write EndpointSlices."""
