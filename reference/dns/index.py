"""The cluster state that the DNS server has received."""

from collections.abc import Callable, Mapping

from reference.client import Event, Key, Object, key_of
from reference.dns.objects import read_endpoints, read_locator, read_service, service_key, topology_keys
from reference.dns.records import Service
from reference.objects.topology_keys import Labels


class ClusterIndex:
    """Services, their endpoints, and the node labels of pods. Not thread-safe. `topology` enables topologyKeys."""

    def __init__(self, *, topology: bool = True) -> None:
        self.topology = topology
        self._services: dict[Key, Object] = {}
        self._slices: dict[Key, dict[str, Object]] = {}
        self._owner: dict[Key, Key] = {}  # the Service of each slice
        self._locators: dict[Key, tuple[tuple[str, ...], Labels | None]] = {}
        self._pods_at: dict[str, dict[Key, None]] = {}  # host-network pods share the address of their node
        self._take: Mapping[str, Callable[[Object, bool], None]] = {
            "services": self._take_service,
            "endpointslices": self._take_slice,
            "podlocators": self._take_locator,
        }

    def apply(self, event: Event) -> None:
        """Apply one event of any type except SYNCED."""
        self._take[event.resource](event.object, event.type == "DELETED")

    def has_namespace(self, namespace: str) -> bool:
        """Return whether a namespace contains a Service. Return True for "", which stands for the DNS name `svc`."""
        return not namespace or any(key[0] == namespace for key in self._services)

    def labels_at(self, address: str) -> Labels | None:
        """Return the node labels of the pod with this address, or None if they are unknown."""
        for pod in self._pods_at.get(address, ()):
            labels = self._locators[pod][1]
            if labels is not None:
                return labels
        return None

    def service(self, key: Key) -> Service | None:
        """Return a Service with its endpoints and the labels of their nodes; None if the Service does not exist."""
        if (obj := self._services.get(key)) is None:
            return None
        endpoints = read_endpoints(self._slices.get(key, {}).values(), self._labels_of)
        return read_service(obj, self._topology_keys(obj), endpoints)

    def _labels_of(self, pod: Key | None, address: str) -> Labels | None:
        if pod is not None and pod in self._locators:
            return self._locators[pod][1]
        return self.labels_at(address)

    def _topology_keys(self, service: Object) -> tuple[str, ...]:
        return topology_keys(service) if self.topology else ()

    def _take_service(self, obj: Object, gone: bool) -> None:
        self._services.pop(key_of(obj), None)
        if not gone:
            self._services[key_of(obj)] = obj

    def _take_slice(self, obj: Object, gone: bool) -> None:
        key, now = key_of(obj), None if gone else service_key(obj)
        if (before := self._owner.pop(key, None)) is not None:
            self._slices[before].pop(key[1])
        if now is not None:
            self._owner[key] = now
            self._slices.setdefault(now, {})[key[1]] = obj

    def _take_locator(self, obj: Object, gone: bool) -> None:
        key = key_of(obj)
        for ip in self._locators.pop(key, ((), None))[0]:
            del self._pods_at[ip][key]
            if not self._pods_at[ip]:
                del self._pods_at[ip]
        if not gone:
            self._locators[key] = ips, _ = read_locator(obj)
            for ip in ips:
                self._pods_at.setdefault(ip, {})[key] = None
