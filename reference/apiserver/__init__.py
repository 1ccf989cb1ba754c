"""A Kubernetes API server in memory: storage, watch, defaulting, validation, patches, discovery."""
