"""The protocol by which components use the API server, and clients for a server elsewhere.

`informer` outlives the server it is connected to, `remote` speaks HTTPS to a server in another process.
"""

from reference.client.client import (
    ApiError,
    Client,
    Event,
    EventType,
    Key,
    Object,
    Subscription,
    delete_if_there,
    key_of,
)

__all__ = ["ApiError", "Client", "Event", "EventType", "Key", "Object", "Subscription", "delete_if_there", "key_of"]
