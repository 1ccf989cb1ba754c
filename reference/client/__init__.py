"""The `Client` protocol for access to the API server, a client that survives server restarts, and one over HTTPS."""

from reference.client.client import ApiError, Client, Event, Key, Object, Subscription, delete_if_there, key_of

__all__ = ["ApiError", "Client", "Event", "Key", "Object", "Subscription", "delete_if_there", "key_of"]
