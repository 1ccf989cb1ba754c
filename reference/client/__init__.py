"""The protocol that components use to access the API server, and two clients that implement it.

`reconnecting_client` uses an API server in this process. `remote` connects to another process over HTTPS.
"""

from reference.client.client import ApiError, Client, Event, Key, Object, Subscription, delete_if_there, key_of

__all__ = ["ApiError", "Client", "Event", "Key", "Object", "Subscription", "delete_if_there", "key_of"]
