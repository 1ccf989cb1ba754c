"""A protocol with the API server operations that components need. Readers share objects, so never change them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Object = dict[str, Any]
Key = tuple[str, str]  # namespace ("" for cluster-scoped objects) and name
Sink = Callable[["Event"], None]
EventType = Literal["ADDED", "MODIFIED", "DELETED", "SYNCED"]


@dataclass(frozen=True, slots=True)
class Event:
    """A change to an object. SYNCED (with an empty object) means that the initial state is complete."""

    type: EventType
    resource: str
    object: Object


class ApiError(Exception):
    """An error of the API server. `status` is the Kubernetes Status object."""

    def __init__(self, status: Object) -> None:
        super().__init__(status.get("message", ""))
        self.status = status

    @property
    def code(self) -> int:
        return int(self.status.get("code", 500))

    @property
    def reason(self) -> str:
        """The machine-readable reason, for example NotFound, Conflict or Invalid."""
        return str(self.status.get("reason", ""))


class Subscription(Protocol):
    """A running watch. No event is delivered after `close` has returned."""

    def close(self) -> None: ...


class Client(Protocol):
    """Accesses the API server. Resources are named by their plurals ("services", "endpointslices", "nodes", …).

    Every call may raise `ApiError`: NotFound, AlreadyExists, Conflict (the object's resourceVersion is not the current
    one) or Invalid. `namespace` is empty for cluster-scoped resources.
    """

    def get(self, resource: str, namespace: str, name: str) -> Object: ...

    def create(self, resource: str, namespace: str, obj: Object) -> Object: ...

    def update(self, resource: str, namespace: str, obj: Object) -> Object: ...

    def update_status(self, resource: str, namespace: str, obj: Object) -> Object: ...

    def delete(self, resource: str, namespace: str, name: str) -> None: ...

    def subscribe(self, resources: Collection[str], sink: Sink) -> Subscription:
        """Deliver the current state as ADDED events, then one SYNCED event, then each change, in order.

        A resource such as "nodes/a1" selects the object with this name.

        `sink` may run in the writer's thread while the store is locked, so `sink` must only queue the event. When a
        write in this process returns, `sink` has already received the event of the write.
        """
        ...


def selections(resources: Collection[str]) -> Mapping[str, str]:
    """Return the name of the selected object of each resource, or "" for a resource whose objects are all selected."""
    return {resource: name for resource, _, name in (each.partition("/") for each in resources)}


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def delete_if_there(client: Client, resource: str, key: Key) -> None:
    try:
        client.delete(resource, *key)
    except ApiError as error:
        if error.reason != "NotFound":
            raise
