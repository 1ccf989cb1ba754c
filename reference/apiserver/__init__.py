"""A Kubernetes API server in memory: storage, watch, defaulting, validation, patches, discovery."""

from reference.apiserver.api import ApiServer

__all__ = ["ApiServer"]
