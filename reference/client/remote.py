"""A `Client` over HTTPS. Subscriptions share one watch per resource. After a rejected watch, the client lists again."""

import base64
import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from reference.client.client import ApiError, Event, EventType, Key, Object, Sink, key_of

_GROUPS = {
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "podlocators": "/apis/trafficdist.dev/v1alpha1",
}
_CLUSTER_SCOPED = frozenset({"nodes", "namespaces"})
_TIMEOUT = 10.0  # seconds for a response
_WATCH_SECONDS = 3600
_PAUSE = 0.05  # seconds between a failure and the next list


class RemoteClient:
    """A client over HTTPS; thread-safe. Calls raise `OSError` while the server is unreachable."""

    def __init__(self, kubeconfig: Mapping[str, Any]) -> None:
        """Use the first cluster of a kubeconfig, with its inline CA certificate, and the token of the first user."""
        cluster = kubeconfig["clusters"][0]["cluster"]
        token = kubeconfig["users"][0]["user"]["token"]
        self.headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "User-Agent": "trafficdist"}
        url = urlsplit(cluster["server"])
        self._address = url.hostname or "", url.port or 443
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=ca)
        self._requests = threading.Lock()  # allows one request at a time, on one connection
        self._connection: http.client.HTTPSConnection | None = None
        self._lock = threading.RLock()  # for all attributes below; held during delivery, which keeps events in order
        self._reflectors: dict[str, _Reflector] = {}
        self._subscriptions: list[_Subscription] = []

    def get(self, resource: str, namespace: str, name: str) -> Object:
        return self._ask("GET", _path(resource, namespace, name))

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        return self._ask("POST", _path(resource, namespace), obj)

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        return self._ask("PUT", _path(resource, namespace, obj["metadata"]["name"]), obj)

    def update_status(self, resource: str, namespace: str, obj: Object) -> Object:
        return self._ask("PUT", _path(resource, namespace, obj["metadata"]["name"]) + "/status", obj)

    def delete(self, resource: str, namespace: str, name: str) -> None:
        self._ask("DELETE", _path(resource, namespace, name))

    def subscribe(self, resources: Collection[str], sink: Sink) -> "_Subscription":
        """Like `Client.subscribe`, except that a write may return shortly before its event arrives."""
        with self._lock:
            subscription = _Subscription(self, frozenset(resources), sink)
            self._subscriptions.append(subscription)
            for resource in resources:
                if resource not in self._reflectors:
                    self._reflectors[resource] = _Reflector(self, resource)
                    self._reflectors[resource].thread.start()
                for obj in self._reflectors[resource].known.values():
                    sink(Event("ADDED", resource.partition("/")[0], obj))
            self._send_if_complete()
        return subscription

    def forget(self, subscription: "_Subscription") -> None:
        """End a subscription. After this method returns, the subscription receives no events."""
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

    def caught_up(self) -> bool:
        """Return whether subscribers have received the events of all writes that were made before this call.

        If the server refuses connections, return True. After any other error, return False.
        """
        with self._lock:
            names = list(self._reflectors)
        try:
            return all(self._knows(each, self._ask("GET", _selection(each))) for each in names)
        except ConnectionRefusedError:
            return True
        except (OSError, http.client.HTTPException, ApiError):
            return False

    def _knows(self, resource: str, listed: Object) -> bool:
        current = {key_of(each): _revision(each) for each in listed.get("items") or ()}
        with self._lock:
            reflector = self._reflectors[resource]
            known = {key: _revision(each) for key, each in reflector.known.items()}
        return reflector.complete and current == known

    def close(self) -> None:
        """End all watches and their threads. Idempotent."""
        for each in list(self._reflectors.values()):
            each.stop()
        with self._requests:
            self._hang_up()

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The watch threads: one for each resource, from the first subscription to the resource until `close`."""
        return tuple(each.thread for each in list(self._reflectors.values()))

    def connect(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(*self._address, timeout=_TIMEOUT, context=self._tls)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def changed(self, resource: str, event: EventType, obj: Object) -> None:
        """Send an event to the subscribers of a resource. The caller must hold the lock."""
        for each in self._subscriptions:
            if resource in each.resources:
                each.sink(Event(event, resource.partition("/")[0], obj))

    def listed(self, reflector: "_Reflector", items: Mapping[Key, Object]) -> None:
        """Send the differences between a list and the previously known objects to the subscribers."""
        with self._lock:
            before, reflector.known = reflector.known, dict(items)
            for key in before.keys() - items.keys():
                self.changed(reflector.resource, "DELETED", before[key])
            for key, obj in items.items():
                if key not in before:
                    self.changed(reflector.resource, "ADDED", obj)
                elif _revision(before[key]) != _revision(obj):
                    self.changed(reflector.resource, "MODIFIED", obj)
            reflector.complete = True
            self._send_if_complete()

    def watched(self, reflector: "_Reflector", event: EventType, obj: Object) -> None:
        with self._lock:
            if event == "DELETED":
                reflector.known.pop(key_of(obj), None)
            else:
                reflector.known[key_of(obj)] = obj
            self.changed(reflector.resource, event, obj)

    def _send_if_complete(self) -> None:
        for each in self._subscriptions:
            if not each.complete and all(self._reflectors[name].complete for name in each.resources):
                each.complete = True
                each.sink(Event("SYNCED", "", {}))

    def _ask(self, method: str, path: str, body: Object | None = None) -> Object:
        with self._requests:
            try:
                code, content = self._exchange(method, path, body)
            except (OSError, http.client.HTTPException):
                self._hang_up()  # the server may have closed an idle connection, so retry on a new one
                code, content = self._exchange(method, path, body)
        if code >= 400:
            raise ApiError(content)
        return content

    def _exchange(self, method: str, path: str, body: Object | None) -> tuple[int, Object]:
        if self._connection is None:
            self._connection = self.connect()
        headers = {**self.headers, "Content-Type": "application/json"}
        self._connection.request(method, path, None if body is None else orjson.dumps(body), headers)
        response = self._connection.getresponse()
        content = response.read()
        try:
            return response.status, orjson.loads(content)
        except orjson.JSONDecodeError:
            return response.status, {"code": response.status, "message": content[:200].decode(errors="replace")}

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(eq=False)
class _Subscription:
    client: RemoteClient
    resources: frozenset[str]
    sink: Sink
    complete: bool = False

    def close(self) -> None:
        self.client.forget(self)


@dataclass(eq=False)
class _Reflector:
    client: RemoteClient
    resource: str
    known: dict[Key, Object] = field(default_factory=dict)
    complete: bool = False
    _revision: str = ""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _connection: http.client.HTTPSConnection | None = None

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name=f"watch-{self.resource}", daemon=True)

    def stop(self) -> None:
        self._stopping.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except (OSError, ValueError, AttributeError, http.client.HTTPException):  # unreachable, or stopped
                self._stopping.wait(_PAUSE)

    def _follow(self) -> None:
        connection = self._connection = self.client.connect()
        try:
            if not self._revision:
                self._load(connection)
            connection.sock.settimeout(None)
            while not self._stopping.is_set() and self._watch(connection):
                pass
        finally:
            connection.close()

    def _load(self, connection: http.client.HTTPSConnection) -> None:
        connection.request("GET", _selection(self.resource), headers=self.client.headers)
        response = connection.getresponse()
        listed = orjson.loads(response.read())
        if response.status != 200:
            raise OSError(f"list of {self.resource}: {response.status}")
        self.client.listed(self, {key_of(each): each for each in listed["items"] or ()})
        self._revision = listed["metadata"]["resourceVersion"]

    def _watch(self, connection: http.client.HTTPSConnection) -> bool:
        query = f"&watch=true&allowWatchBookmarks=true&timeoutSeconds={_WATCH_SECONDS}&resourceVersion={self._revision}"
        connection.request("GET", _selection(self.resource) + query, headers=self.client.headers)
        response = connection.getresponse()
        if response.status != 200:
            self._revision = ""
            raise OSError(f"watch of {self.resource}: {response.status}")
        while line := response.readline():
            event = orjson.loads(line)
            if event["type"] == "ERROR":
                self._revision = ""  # too old: list again
                raise OSError(f"watch of {self.resource}: {event['object'].get('message')}")
            self._revision = _revision(event["object"])
            if event["type"] != "BOOKMARK":
                self.client.watched(self, event["type"], event["object"])
        return False


def _selection(resource: str) -> str:
    """Return the path and query that select all objects of a resource, or one object of a resource like "nodes/a1"."""
    resource, _, name = resource.partition("/")
    return f"{_path(resource, '')}?fieldSelector={f'metadata.name%3D{name}' if name else ''}"


def _path(resource: str, namespace: str, name: str = "") -> str:
    parts = [_GROUPS.get(resource, "/api/v1")]
    if namespace and resource not in _CLUSTER_SCOPED:
        parts += ["namespaces", namespace]
    return "/".join([*parts, resource, *([name] if name else [])])


def _revision(obj: Object) -> str:
    return str(obj["metadata"]["resourceVersion"])
