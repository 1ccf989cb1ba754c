"""The PodLocator controller (KEP-536, New PodLocator controller), which skips events that change no PodLocator."""

from collections.abc import Callable, Collection, Mapping

from reference.client import Client, Event, Key, Object, delete_if_there, key_of
from reference.controller import Controller
from reference.pod_locator.location import addresses, labels, location, node_name, says

RESOURCE = "podlocators"


class PodLocatorIndex:
    """Pods, Nodes and PodLocators, with indexes that map an event to affected PodLocators. Not thread-safe."""

    def __init__(self) -> None:
        self._pods: dict[Key, Object] = {}
        self._nodes: dict[str, Object] = {}
        self._locators: dict[Key, Object] = {}
        self._by_node: dict[str, set[Key]] = {}
        self._deleted: set[str] = set()  # uids that this controller deleted, until their DELETED events arrive
        self._take: Mapping[str, Callable[[Object, bool], Collection[Key]]] = {
            "pods": self._take_pod,
            "nodes": self._take_node,
            "podlocators": self._take_locator,
        }

    def apply(self, event: Event) -> Collection[Key]:
        return self._take[event.resource](event.object, event.type == "DELETED")

    def keys(self) -> Collection[Key]:
        return {**self._pods, **self._locators}

    def wanted(self, key: Key) -> Object | None:
        """Return the fields that the PodLocator of a pod should have, or None if the pod does not exist."""
        pod = self._pods.get(key)
        return None if pod is None else location(pod, self._nodes.get(node_name(pod)))

    def locator(self, key: Key) -> Object | None:
        """Return the PodLocator, including writes by this controller whose events have not arrived yet."""
        return self._locators.get(key)

    def written(self, locator: Object) -> None:
        """Record the result of a write by this controller, so that the event of this write is ignored."""
        self._locators[key_of(locator)] = locator

    def deleted(self, locator: Object) -> None:
        self._deleted.add(locator["metadata"]["uid"])
        self._locators.pop(key_of(locator), None)

    def _take_pod(self, pod: Object, gone: bool) -> Collection[Key]:
        key, old = key_of(pod), self._pods.pop(key_of(pod), None)
        if not gone:
            self._pods[key] = pod
        if old is not None and not gone and _place(old) == _place(pod):
            return ()
        if old is not None:
            self._by_node[node_name(old)].discard(key)
        if not gone:
            self._by_node.setdefault(node_name(pod), set()).add(key)
        return (key,)

    def _take_node(self, node: Object, gone: bool) -> Collection[Key]:
        name = node["metadata"]["name"]
        old = self._nodes.pop(name, None)
        if not gone:
            self._nodes[name] = node
        if old is not None and not gone and labels(old) == labels(node):
            return ()
        return self._by_node.get(name, ())

    def _take_locator(self, locator: Object, gone: bool) -> Collection[Key]:
        """Apply an event of a PodLocator, unless it is older than the last write by this controller."""
        key, known = key_of(locator), self._locators.get(key_of(locator))
        if locator["metadata"]["uid"] in self._deleted:
            if gone:
                self._deleted.discard(locator["metadata"]["uid"])
            return ()
        if known is not None and _revision(locator) < _revision(known) + (not gone):
            return ()
        if gone:
            self._locators.pop(key, None)
        else:
            self._locators[key] = locator
        return () if known is not None and not gone and says(known) == says(locator) else (key,)


class PodLocatorController(Controller):
    """Creates, updates and deletes PodLocators to match their pods and nodes, without unnecessary writes."""

    def __init__(self, client: Client, *, locations: PodLocatorIndex | None = None) -> None:
        self._locations = locations or PodLocatorIndex()
        super().__init__("pod-locator-controller", client, self._locations, ("pods", "nodes", RESOURCE))

    def _sync(self, key: Key) -> None:
        wanted, existing = self._locations.wanted(key), self._locations.locator(key)
        if wanted is None:
            if existing is not None:
                self._delete(key, existing)
        elif existing is None:
            made = self._client.create(RESOURCE, key[0], {"metadata": {"name": key[1]}, **wanted})
            self._locations.written(made)
        elif says(existing) != wanted:
            changed = {"metadata": existing["metadata"], **wanted}
            self._locations.written(self._client.update(RESOURCE, key[0], changed))

    def _delete(self, key: Key, existing: Object) -> None:
        delete_if_there(self._client, RESOURCE, key)
        self._locations.deleted(existing)


def _place(pod: Object) -> tuple[object, ...]:
    """Return the parts of a pod on which its PodLocator depends."""
    return node_name(pod), addresses(pod), pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}


def _revision(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
