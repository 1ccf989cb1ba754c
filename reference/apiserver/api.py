"""The API server as an object in this process: what controllers, proxies and tests of the reference talk to.

HTTP (`reference.apiserver.server`) is another way in to the same registry; both see the same objects and events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from reference.apiserver import deletion, patching, reads, writes
from reference.apiserver.deletion import DeleteOptions
from reference.apiserver.kinds import Strategy, strategies
from reference.apiserver.patches import MERGE
from reference.apiserver.pools import AddressPool, Pools
from reference.apiserver.registry import NAMESPACES, Call, ObjectRef, Registry
from reference.apiserver.selectors import select
from reference.apiserver.store import Change, Store
from reference.client import Event, Object
from reference.features import Features

SERVICE_CIDRS = ("10.96.0.0/16", "fd00:10:96::/112")


class ApiServer:
    """A Kubernetes API server in memory; thread-safe. It is a `reference.client.Client`, with some verbs more.

    `service_cidrs`: at most one for each IP family, the default family first. `window`: how many changes of each
    resource are remembered, at least, for watches that resume and for pages of lists.

    `predecessor`: an API server whose place this one takes, at another version or with other gates. It goes on with the
    same objects, resource versions, kinds and allocated addresses (`service_cidrs` and `window` are the predecessor's);
    the predecessor answers everything with 503. Fields that this version does not know are not served. They stay stored
    until it writes the object, so a later server that knows them serves them again (KEP-4444, the manual test of the
    rollback). Watches cannot resume across this, as with a server that has just started: they get 410.
    """

    def __init__(
        self,
        features: Features | None = None,
        *,
        predecessor: ApiServer | None = None,
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
        made = store((each.resource.plural for each in kinds), window=window)
        self.registry = Registry(kinds, self.features, store=made, pools=Pools(service_cidrs))
        for name in deletion.PERMANENT:
            self.create(NAMESPACES, "", {"metadata": {"name": name}})

    def add_kind(self, strategy: Strategy) -> None:
        """Serve one kind more, as a CustomResourceDefinition would."""
        self.registry.add(strategy)

    def get(self, resource: str, namespace: str, name: str) -> Object:
        """An object. It is shared: copy it before you change it."""
        return self.registry.get(resource, namespace, name).object

    def list(self, resource: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
        """Objects by namespace and name; all namespaces for "". They are shared: copy what you change."""
        selection = select(self.registry.strategy(resource), namespace, labels, fields)
        return [each.object for each in reads.page(self.registry, resource, selection, reads.Query()).items]

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        return writes.create(self.registry, resource, namespace, writes.private(obj), Call()).object

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        return writes.update(self.registry, resource, namespace, writes.private(obj), Call()).object

    def update_status(self, resource: str, namespace: str, obj: Object) -> Object:
        return writes.update_status(self.registry, resource, namespace, writes.private(obj), Call()).object

    def patch(
        self, resource: str, namespace: str, name: str, patch: Any, *, content_type: str = MERGE, subresource: str = ""
    ) -> Object:
        """Change an object by a JSON patch, a JSON merge patch or a strategic merge patch, told by its media type."""
        target = ObjectRef(resource, namespace, name, subresource)
        return patching.patch(self.registry, target, content_type, writes.private(patch), Call()).object

    def delete(self, resource: str, namespace: str, name: str, *, grace_seconds: int | None = None) -> None:
        """Delete an object; one that has a grace period (a pod on a node) is marked, and gone with a grace of 0."""
        deletion.delete(self.registry, ObjectRef(resource, namespace, name), DeleteOptions(grace_seconds), Call())

    def subscribe(self, resources: Collection[str], sink: Callable[[Event], None]) -> Subscription:
        """See `reference.client.Client.subscribe`; ends with `Subscription.close`."""

        def observe(change: Change) -> None:
            sink(Event(change.type, change.resource, change.new.object))

        for resource in resources:
            self.registry.strategy(resource)
        store = self.registry.store
        with store.lock:
            for resource in resources:
                for stored in store.items(resource):
                    sink(Event("ADDED", resource, stored.object))
            sink(Event("SYNCED", "", {}))
            store.observe(resources, observe)
        return Subscription(self.registry, observe)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A running watch in this process."""

    registry: Registry
    observer: Callable[[Change], None]

    def close(self) -> None:
        """End it: when this has returned, the sink is not called again."""
        self.registry.store.forget(self.observer)
