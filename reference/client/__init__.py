"""The protocol through which components use the API server, and its clients.

`informer` is a client of API servers in this process that can reconnect. `remote` connects to another process by HTTPS.
"""

from reference.client.client import ApiError, Client, Event, Key, Object, Subscription, delete_if_there, key_of

__all__ = ["ApiError", "Client", "Event", "Key", "Object", "Subscription", "delete_if_there", "key_of"]
