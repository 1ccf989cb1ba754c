"""The API server as an object in this process. `reference.apiserver.server` serves the same registry over HTTPS."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from reference.apiserver import deletion, writes
from reference.apiserver.deletion import DeleteOptions
from reference.apiserver.kinds import Strategy, strategies
from reference.apiserver.pools import AddressPool, Pools
from reference.apiserver.registry import NAMESPACES, ObjectRef, Registry, Write
from reference.apiserver.store import Change, Store
from reference.client import Event, Object
from reference.client.client import selections
from reference.features import Features

SERVICE_CIDRS = ("10.96.0.0/16", "fd00:10:96::/112")


class ApiServer:
    """A Kubernetes API server in memory; thread-safe. It implements `reference.client.Client`.

    `service_cidrs` has at most one CIDR for each IP family, the default family first. For each resource, the server
    remembers at least `window` changes (fewer if they are large), so that watches and paged lists can continue.

    `predecessor` is an API server that the new server replaces, possibly with another version or other gates. The new
    server takes over its objects, resource versions, kinds, allocated addresses, `service_cidrs` and `window`; the
    predecessor then answers 503. Fields that the new version lacks are not served. They stay stored until the object is
    written, so a later server that has the fields serves them again, as in the manual rollback test of KEP-4444.
    Watches cannot resume across the replacement: they receive 410, as from a server that has just started.
    """

    def __init__(
        self,
        features: Features | None = None,
        *,
        predecessor: "ApiServer | None" = None,
        service_cidrs: Sequence[str] = SERVICE_CIDRS,
        window: int = 4096,
        store: Callable[..., Store] = Store,
    ) -> None:
        self.features = features or Features()
        self.registry: Registry
        if predecessor is not None:
            self.registry = predecessor.registry.hand_over(self.features)
            return
        families = [AddressPool(each).family for each in service_cidrs]
        kinds = strategies(service_families=families)
        made = store((each.resource.key for each in kinds), window=window)
        self.registry = Registry(kinds, self.features, store=made, pools=Pools(service_cidrs, self.features))
        for name in deletion.PERMANENT:
            self.create(NAMESPACES, "", {"metadata": {"name": name}})

    def add_kind(self, strategy: Strategy) -> None:
        self.registry.add(strategy)

    def get(self, resource: str, namespace: str, name: str) -> Object:
        """Return an object. The object is shared, so copy it before changing it."""
        return self.registry.get(resource, namespace, name).object

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        return writes.create(self.registry, ObjectRef(resource, namespace, ""), writes.private(obj), Write()).object

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        return writes.update(self.registry, ObjectRef(resource, namespace, ""), writes.private(obj), Write()).object

    def update_status(self, resource: str, namespace: str, obj: Object) -> Object:
        target = ObjectRef(resource, namespace, "", "status")
        return writes.update(self.registry, target, writes.private(obj), Write()).object

    def delete(self, resource: str, namespace: str, name: str, *, grace_seconds: int | None = None) -> None:
        """Delete an object. A pod on a node is only marked as terminating, unless its grace period is 0."""
        deletion.delete(self.registry, ObjectRef(resource, namespace, name), DeleteOptions(grace_seconds), Write())

    def subscribe(self, resources: Collection[str], sink: Callable[[Event], None]) -> "Subscription":
        names = selections(resources)

        def observe(change: Change) -> None:
            if names[change.resource] in {"", change.new.object["metadata"]["name"]}:
                sink(Event(change.type, change.resource, change.new.object))

        for resource in names:
            self.registry.strategy(resource)
        store = self.registry.store
        with store.lock:
            for resource, name in names.items():
                for stored in store.items(resource):
                    if name in {"", stored.object["metadata"]["name"]}:
                        sink(Event("ADDED", resource, stored.object))
            sink(Event("SYNCED", "", {}))
            store.observe(names, observe)
        return Subscription(self.registry, observe)


@dataclass(frozen=True, slots=True)
class Subscription:
    registry: Registry
    observer: Callable[[Change], None]

    def close(self) -> None:
        """End the watch. After this method returns, the sink is not called."""
        self.registry.store.forget(self.observer)
