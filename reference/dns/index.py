"""The cluster as the DNS server has seen it, and which answers each event affects.

Answers are cached as bytes, so an event costs what it invalidates. An endpoint change affects its Service; a change of
a pod's node affects the Services that it is an endpoint of, and itself as a client. One thread uses an index; it has no
locks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from reference.client import Event, Key, Object, key_of
from reference.dns.objects import Origin, read_endpoints, read_locator, read_service, service_key, topology_keys
from reference.dns.records import Endpoint, Family, Service
from reference.objects.topology_keys import ANY, Labels


@dataclass(frozen=True, slots=True)
class Changed:
    """The Services that an event affects (a namespace is one without name), and the clients, by address.

    `keys`: whether the node labels by which clients differ have changed.
    """

    services: Collection[Key] = ()
    clients: Collection[str] = ()
    keys: bool = False


class ClusterIndex:
    """Services, their endpoints, and the nodes of pods. `topology`: whether `topologyKeys` are used."""

    def __init__(self, *, topology: bool = True) -> None:
        self.topology = topology
        self._services: dict[Key, Object] = {}
        self._namespaces: Counter[str] = Counter()
        self._keys: Counter[str] = Counter()  # topology keys, by how many Services have them
        self._slices: dict[Key, dict[str, Object]] = {}
        self._owner: dict[Key, Key] = {}  # the Service of each slice
        self._locators: dict[Key, tuple[tuple[str, ...], Labels | None]] = {}
        self._pods_at: dict[str, dict[Key, None]] = {}  # several, where pods share the address of their node
        self._built: dict[Key, Service] = {}
        self._users: dict[Key | str, set[Key]] = {}  # built Services by the pods and addresses of their endpoints
        self._used: dict[Key, set[Key | str]] = {}  # the same, the other way round
        self._take: Mapping[str, Callable[[Object, bool], Changed]] = {
            "services": self._take_service,
            "endpointslices": self._take_slice,
            "podlocators": self._take_locator,
        }

    def apply(self, event: Event) -> Changed:
        """Read one event, other than SYNCED."""
        return self._take[event.resource](event.object, event.type == "DELETED")

    @property
    def label_keys(self) -> tuple[str, ...]:
        """The node labels by which clients differ, sorted."""
        return tuple(sorted(self._keys))

    def has_namespace(self, namespace: str) -> bool:
        """Return whether a namespace has a Service; always for "", the parent of all namespaces."""
        return not namespace or namespace in self._namespaces

    def labels_at(self, address: str) -> Labels | None:
        """Return the node labels of the pod with an address; None if unknown."""
        for pod in self._pods_at.get(address, ()):
            labels = self._locators[pod][1]
            if labels is not None:
                return labels
        return None

    def service(self, key: Key) -> Service | None:
        """Return a Service with its endpoints and their labels; None if it does not exist."""
        if key not in self._services:
            return None
        if key not in self._built:
            self._built[key] = self._build(key)
        return self._built[key]

    def _build(self, key: Key) -> Service:
        obj = self._services[key]
        by_family: dict[Family, list[Endpoint]] = {}
        for family, origin, endpoint in read_endpoints(self._slices.get(key, {}).values()):
            for name in (origin.pod, origin.address):
                if name is not None:
                    self._users.setdefault(name, set()).add(key)
                    self._used.setdefault(key, set()).add(name)
            by_family.setdefault(family, []).append(replace(endpoint, labels=self._labels_of(origin) or frozenset()))
        return read_service(obj, self._topology_keys(obj), by_family)

    def _drop(self, key: Key) -> None:
        """Invalidate a Service."""
        self._built.pop(key, None)
        for name in self._used.pop(key, ()):
            self._users[name].discard(key)
            if not self._users[name]:
                del self._users[name]

    def _labels_of(self, origin: Origin) -> Labels | None:
        if origin.pod is not None and origin.pod in self._locators:
            return self._locators[origin.pod][1]
        return self.labels_at(origin.address)

    def _topology_keys(self, service: Object) -> tuple[str, ...]:
        return topology_keys(service) if self.topology else ()

    def _take_service(self, obj: Object, gone: bool) -> Changed:
        key, before = key_of(obj), self.label_keys
        old = self._services.pop(key, None)
        for each, by in ((old, -1), (None if gone else obj, 1)):
            if each is not None:
                self._count(key[0], self._topology_keys(each), by)
        if not gone:
            self._services[key] = obj
        if old is not None and not gone and old["spec"] == obj["spec"]:
            return Changed()
        self._drop(key)
        return Changed((key, (key[0], "")), keys=before != self.label_keys)

    def _count(self, namespace: str, keys: Collection[str], by: int) -> None:
        for counter, names in ((self._namespaces, (namespace,)), (self._keys, {*keys} - {ANY})):
            for name in names:
                counter[name] += by
                if not counter[name]:
                    del counter[name]

    def _take_slice(self, obj: Object, gone: bool) -> Changed:
        key, now = key_of(obj), None if gone else service_key(obj)
        before = self._owner.pop(key, None)
        if before is not None:
            self._slices[before].pop(key[1])
        if now is not None:
            self._owner[key] = now
            self._slices.setdefault(now, {})[key[1]] = obj
        changed = {each for each in (before, now) if each is not None}
        for each in changed:
            self._drop(each)
        return Changed(changed)

    def _take_locator(self, obj: Object, gone: bool) -> Changed:
        key = key_of(obj)
        old_ips, old_labels = self._locators.pop(key, ((), None))
        ips, labels = ((), None) if gone else read_locator(obj)
        for ip in old_ips:
            del self._pods_at[ip][key]
            if not self._pods_at[ip]:
                del self._pods_at[ip]
        if not gone:
            self._locators[key] = ips, labels
            for ip in ips:
                self._pods_at.setdefault(ip, {})[key] = None
        if (old_ips, old_labels) == (ips, labels):
            return Changed()
        clients = {*old_ips, *ips}
        names: list[Key | str] = [key, *clients]
        services = {service for name in names for service in self._users.get(name, ())}
        for each in services:
            self._drop(each)
        return Changed(services, clients)
