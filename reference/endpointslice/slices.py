"""The slices that this controller manages, including those that it has just written.

A write is recorded here before its event arrives. So a sync never creates a slice twice, and the event of this
controller's own write causes no sync. Any other event is a change by another client, and causes a sync.
"""

from collections.abc import Collection, Iterable

from reference.client import Event, Key, Object, key_of
from reference.endpointslice.labels import is_managed, service_name


class SliceIndex:
    """Managed slices by Service, namespace and name. Other slices are not stored."""

    def __init__(self) -> None:
        self._slices: dict[Key, Object] = {}
        self._by_service: dict[Key, dict[str, Object]] = {}
        self._deleted: set[str] = set()  # uids deleted here, whose DELETED event is still to come

    def of(self, service: Key) -> Iterable[Object]:
        return tuple(self._by_service.get(service, {}).values())

    def services(self) -> Collection[Key]:
        """Return all Services whose names are on managed slices, whether or not the Services exist."""
        return tuple(self._by_service)

    def written(self, endpoint_slice: Object) -> None:
        """Record the result of a create or update by this controller."""
        self._put(endpoint_slice)

    def deleted(self, endpoint_slice: Object) -> None:
        """Record a delete by this controller."""
        self._deleted.add(endpoint_slice["metadata"]["uid"])
        self._drop(key_of(endpoint_slice))

    def apply(self, event: Event) -> Collection[Key]:
        """Read an event. Return the Services to sync because another client changed their slices."""
        new = event.object
        old = self._slices.get(key_of(new))
        if new["metadata"]["uid"] in self._deleted:
            if event.type == "DELETED":
                self._deleted.discard(new["metadata"]["uid"])
            return ()
        if old is None and not is_managed(new):
            return ()
        if event.type == "DELETED":
            return self._lost(old, new)
        if old is not None and _is_known(old, new):
            return ()
        if is_managed(new):
            self._put(new)
        else:
            self._drop(key_of(new))
        return {_service(each) for each in (old, new) if each is not None}

    def _lost(self, old: Object | None, new: Object) -> Collection[Key]:
        """Handle a managed slice that another client deleted, unless it is an earlier slice with the same name."""
        if old is None or old["metadata"]["uid"] != new["metadata"]["uid"]:
            return ()
        self._drop(key_of(old))
        return (_service(old),)

    def _put(self, endpoint_slice: Object) -> None:
        key = key_of(endpoint_slice)
        self._drop(key)
        self._slices[key] = endpoint_slice
        self._by_service.setdefault(_service(endpoint_slice), {})[key[1]] = endpoint_slice

    def _drop(self, key: Key) -> None:
        old = self._slices.pop(key, None)
        if old is None:
            return
        service = _service(old)
        siblings = self._by_service[service]
        del siblings[key[1]]
        if not siblings:
            del self._by_service[service]


def _service(endpoint_slice: Object) -> Key:
    return endpoint_slice["metadata"]["namespace"], service_name(endpoint_slice)


def _is_known(known: Object, new: Object) -> bool:
    """Return whether `new` is not newer than the known version of the slice.

    The content can change while the resourceVersion stays the same, if an API server of another release drops fields.
    """
    if known["metadata"]["uid"] != new["metadata"]["uid"]:
        return False
    newer = int(new["metadata"]["resourceVersion"]) - int(known["metadata"]["resourceVersion"])
    return newer < 0 or (newer == 0 and new == known)
