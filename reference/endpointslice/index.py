"""The cluster state that the controller has received, with indexes that map each event to the affected Services.

Objects come from the client and are immutable. An index has no locks, and only one thread may use it. Slices that this
controller writes are recorded before their events arrive. So a sync never creates a slice twice, and only changes by
other clients cause a sync.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from reference.client import Event, Key, Object, key_of
from reference.endpointslice.endpoints import projection
from reference.endpointslice.labels import is_managed, node_zone, service_name
from reference.endpointslice.plan import selects_pods
from reference.endpointslice.zones import ZoneTable
from reference.features import Features

Label = tuple[str, str, str]  # namespace, label key, label value
Member = TypeVar("Member")


class SliceIndex:
    def __init__(self) -> None:
        self._slices: dict[Key, Object] = {}
        self._by_service: dict[Key, dict[str, Object]] = {}
        self._deleted: set[str] = set()  # uids that this controller deleted, until their DELETED events arrive

    def of(self, service: Key) -> Iterable[Object]:
        return tuple(self._by_service.get(service, {}).values())

    def services(self) -> Collection[Key]:
        """Return all Services to which managed slices belong, even if a Service does not exist."""
        return tuple(self._by_service)

    def written(self, endpoint_slice: Object) -> None:
        key = key_of(endpoint_slice)
        self._drop(key)
        self._slices[key] = endpoint_slice
        self._by_service.setdefault(_service(endpoint_slice), {})[key[1]] = endpoint_slice

    def deleted(self, endpoint_slice: Object) -> None:
        self._deleted.add(endpoint_slice["metadata"]["uid"])
        self._drop(key_of(endpoint_slice))

    def apply(self, event: Event) -> Collection[Key]:
        """Apply an event of a slice. Return the Services whose slices another client has changed."""
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
            self.written(new)
        else:
            self._drop(key_of(new))
        return {_service(each) for each in (old, new) if each is not None}

    def _lost(self, old: Object | None, new: Object) -> Collection[Key]:
        if old is None or old["metadata"]["uid"] != new["metadata"]["uid"]:
            return ()
        self._drop(key_of(old))
        return (_service(old),)

    def _drop(self, key: Key) -> None:
        old = self._slices.pop(key, None)
        if old is None:
            return
        service = _service(old)
        siblings = self._by_service[service]
        del siblings[key[1]]
        if not siblings:
            del self._by_service[service]


class ClusterIndex:
    """Services, pods, nodes and managed slices. `features` determines which nodes are included in `zones`."""

    def __init__(self, features: Features | None = None) -> None:
        self.services: dict[Key, Object] = {}
        self.nodes: dict[str, Object] = {}
        self.slices = SliceIndex()
        self.zones = ZoneTable(features or Features())
        self.nodes_version = 0  # increases when a node is added, removed or relabelled
        self._pods: dict[Key, Object] = {}
        self._members: dict[Key, dict[Key, Object]] = {}  # by Service
        self._services_of: dict[Key, set[Key]] = {}  # by pod
        self._bucket_of: dict[Key, Label] = {}  # the selector label under which a Service is listed
        self._services_by_label: dict[Label, set[Key]] = {}
        self._pods_by_label: dict[Label, set[Key]] = {}
        self._pods_by_node: dict[str, set[Key]] = {}
        self._take: Mapping[str, Callable[[Key, Object | None], Collection[Key]]] = {
            "services": self._take_service,
            "pods": self._take_pod,
            "nodes": self._take_node,
        }

    def apply(self, event: Event) -> Collection[Key]:
        if event.resource == "endpointslices":
            return self.slices.apply(event)
        return self._take[event.resource](key_of(event.object), None if event.type == "DELETED" else event.object)

    def keys(self) -> Collection[Key]:
        return {*self.services, *self.slices.services()}

    def pods_of(self, service: Key) -> Iterable[Object]:
        return self._members.get(service, {}).values()

    def _take_service(self, key: Key, service: Object | None) -> Collection[Key]:
        old = self.services.pop(key, None)
        if service is not None:
            self.services[key] = service
        if old is not None and service is not None and _relevant_parts(old) == _relevant_parts(service):
            return ()
        if _selector(old) != _selector(service):
            self._forget_members(key)
            if _selector(service):
                self._find_members(key, _selector(service))
        return (key,)

    def _forget_members(self, key: Key) -> None:
        for pod_key in self._members.pop(key, ()):
            _remove(self._services_of, pod_key, key)
        if key in self._bucket_of:
            _remove(self._services_by_label, self._bucket_of.pop(key), key)

    def _find_members(self, key: Key, selector: Mapping[str, str]) -> None:
        labels = [(key[0], *item) for item in selector.items()]
        bucket = min(labels, key=lambda label: len(self._services_by_label.get(label, ())))
        self._bucket_of[key] = bucket
        self._services_by_label.setdefault(bucket, set()).add(key)
        members = self._members[key] = {}
        for pod_key in min((self._pods_by_label.get(label, set()) for label in labels), key=len):
            pod = self._pods[pod_key]
            if selector.items() <= _labels(pod).items():
                members[pod_key] = pod
                self._services_of.setdefault(pod_key, set()).add(key)

    def _take_pod(self, key: Key, pod: Object | None) -> Collection[Key]:
        old = self._pods.pop(key, None)
        if pod is not None:
            self._pods[key] = pod
        if old is not None and pod is not None and projection(old) == projection(pod):
            for service_key in self._services_of.get(key, ()):
                self._members[service_key][key] = pod
            return ()
        before = self._unlink_pod(key, old) if old is not None else set()
        return before | self._link_pod(key, pod) if pod is not None else before

    def _unlink_pod(self, key: Key, pod: Object) -> set[Key]:
        for label in _labels(pod).items():
            _remove(self._pods_by_label, (key[0], *label), key)
        _remove(self._pods_by_node, pod["spec"].get("nodeName", ""), key)
        services = self._services_of.pop(key, set())
        for service_key in services:
            del self._members[service_key][key]
        return services

    def _link_pod(self, key: Key, pod: Object) -> set[Key]:
        labels = _labels(pod)
        self._pods_by_node.setdefault(pod["spec"].get("nodeName", ""), set()).add(key)
        services = set()
        for item in labels.items():
            label = (key[0], *item)
            self._pods_by_label.setdefault(label, set()).add(key)
            for service_key in self._services_by_label.get(label, ()):
                if _selector(self.services[service_key]).items() <= labels.items():
                    self._members[service_key][key] = pod
                    services.add(service_key)
        if services:
            self._services_of[key] = services
        return services

    def _take_node(self, key: Key, node: Object | None) -> Collection[Key]:
        """Store a Node. Endpoints depend only on its existence and zone; `zones` stores its data for CPU hints."""
        name = key[1]
        self.zones.put(name, node)
        old = self.nodes.pop(name, None)
        if node is not None:
            self.nodes[name] = node
        if old is not None and node is not None and _labels(old) == _labels(node):
            return ()
        self.nodes_version += 1
        if old is not None and node is not None and node_zone(old) == node_zone(node):
            return ()
        pods = self._pods_by_node.get(name, ())
        return {service for pod_key in pods for service in self._services_of.get(pod_key, ())}


def _selector(service: Object | None) -> Mapping[str, str]:
    """Return the Service's selector, or {} if the controller manages no slices for the Service."""
    return service["spec"]["selector"] if service is not None and selects_pods(service) else {}


def _relevant_parts(service: Object) -> tuple[object, ...]:
    metadata = service["metadata"]
    parts = ("uid", "deletionTimestamp", "labels", "annotations")
    return service["spec"], *(metadata.get(part) for part in parts)


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def _remove(sets: dict[Member, set[Key]], member: Member, key: Key) -> None:
    keys = sets.get(member)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del sets[member]


def _service(endpoint_slice: Object) -> Key:
    return endpoint_slice["metadata"]["namespace"], service_name(endpoint_slice)


def _is_known(known: Object, new: Object) -> bool:
    """Return whether `new` is the known version of the slice, or an older version.

    The content can change while the resourceVersion stays the same, if an API server of another release drops fields.
    """
    if known["metadata"]["uid"] != new["metadata"]["uid"]:
        return False
    newer = int(new["metadata"]["resourceVersion"]) - int(known["metadata"]["resourceVersion"])
    return newer < 0 or (newer == 0 and new == known)
