"""A client that survives restarts of its API server. Subscribers then receive the changes that they missed."""

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from reference.client.client import Client, Event, Key, Object, Sink, Subscription, key_of

_Key = tuple[str, Key]  # the resource, and the object's key


class ReconnectingClient:
    """A `Client` that forwards calls to the current API server, if there is one. Thread-safe."""

    def __init__(self, server: Client | None = None) -> None:
        self._server = server
        self._lock = threading.RLock()  # held by every call, so no call is in progress after `disconnect` has returned
        self._watches: list[_Watch] = []

    @property
    def connected(self) -> bool:
        return self._server is not None

    def connect(self, server: Client) -> None:
        """Use `server` from now on. When `connect` returns, subscribers have received all missed events."""
        with self._lock:
            self._server = server
            for watch in self._watches:
                watch.begin(server)

    def disconnect(self) -> None:
        """Disconnect from the server. After that, no call is in progress, and no event arrives until `connect`."""
        with self._lock:
            self._server = None
            for watch in self._watches:
                watch.end()

    def get(self, resource: str, namespace: str, name: str) -> Object:
        with self._connected() as server:
            return server.get(resource, namespace, name)

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        with self._connected() as server:
            return server.create(resource, namespace, obj)

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        with self._connected() as server:
            return server.update(resource, namespace, obj)

    def update_status(self, resource: str, namespace: str, obj: Object) -> Object:
        with self._connected() as server:
            return server.update_status(resource, namespace, obj)

    def delete(self, resource: str, namespace: str, name: str) -> None:
        with self._connected() as server:
            server.delete(resource, namespace, name)

    def subscribe(self, resources: Collection[str], sink: Sink) -> "_Watch":
        """See `Client.subscribe`. Without a server, the first events arrive during the next `connect`."""
        with self._lock:
            watch = _Watch(self, tuple(resources), sink)
            self._watches.append(watch)
            if self._server is not None:
                watch.begin(self._server)
        return watch

    def forget(self, watch: "_Watch") -> None:
        """End a subscription. After this method returns, the subscription receives no events."""
        with self._lock:
            watch.end()
            if watch in self._watches:
                self._watches.remove(watch)

    @contextmanager
    def _connected(self) -> Iterator[Client]:
        with self._lock:
            if self._server is None:
                raise ConnectionRefusedError("the API server is not available")
            yield self._server


class _Watch:
    """A subscription that can continue with a new server. It stores the objects that its sink has received."""

    def __init__(self, client: ReconnectingClient, resources: tuple[str, ...], sink: Sink) -> None:
        self._client = client
        self._resources = resources
        self._sink = sink
        self._known: dict[_Key, Object] = {}
        self._listed: (
            dict[_Key, Object] | None
        ) = {}  # the objects of a list in progress; None once the list is complete
        self._subscription: Subscription | None = None

    def close(self) -> None:
        self._client.forget(self)

    def begin(self, server: Client) -> None:
        """Subscribe to a server. The sink receives the differences from the objects that it received before."""
        self._listed = {}
        self._subscription = server.subscribe(self._resources, self._receive)

    def end(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def _receive(self, event: Event) -> None:
        if event.type == "SYNCED":
            self._finish_list(event)
            return
        key = event.resource, key_of(event.object)
        if self._listed is not None:
            self._listed[key] = event.object
            self._send_if_new(key, event)
            return
        if event.type == "DELETED":
            self._known.pop(key, None)
        else:
            self._known[key] = event.object
        self._sink(event)

    def _send_if_new(self, key: _Key, event: Event) -> None:
        before = self._known.get(key)
        self._known[key] = event.object
        if before is None:
            self._sink(event)
        elif before is not event.object and before != event.object:
            self._sink(Event("MODIFIED", event.resource, event.object))

    def _finish_list(self, event: Event) -> None:
        for key in self._known.keys() - (self._listed or {}).keys():
            self._sink(Event("DELETED", key[0], self._known.pop(key)))
        self._listed = None
        self._sink(event)
