"""The protocol through which components use the API server, and its clients.

`informer` reconnects to API servers in this process. `remote` speaks HTTPS to an API server in another process.
"""

from reference.client.client import ApiError, Client, Event, Key, Object, Subscription, delete_if_there, key_of

__all__ = ["ApiError", "Client", "Event", "Key", "Object", "Subscription", "delete_if_there", "key_of"]
