"""The store, strategies and pools of an API server. Code that reads and then writes must hold `store.lock`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from reference.apiserver import status
from reference.apiserver.kinds import OtherVersion, Strategy
from reference.apiserver.kinds.custom_resources import strategy_of
from reference.apiserver.pools import Pools
from reference.apiserver.store import Change, Store, StoredObject
from reference.features import Features

NAMESPACES = "namespaces"
DEFINITIONS = "customresourcedefinitions"


@dataclass(slots=True)
class Write:
    """The parameters of a write, except the object. `warnings` collects warnings for the client."""

    dry_run: bool = False
    manager: str = "unknown"
    """The field manager, for managedFields."""
    validation: Literal["Ignore", "Warn", "Strict"] = "Ignore"
    """The handling of unknown fields: drop them, drop them with a warning, or refuse the write."""
    applied: bool = False
    """True for a server-side apply, which computes managedFields itself."""
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object that a request addresses. `view` is set if the request uses a group or version that is not stored."""

    resource: str
    namespace: str
    name: str
    subresource: str = ""
    view: OtherVersion | None = None


class Registry:
    def __init__(self, strategies: Iterable[Strategy], features: Features, *, store: Store, pools: Pools) -> None:
        self.features = features
        self.strategies = {each.resource.key: each for each in strategies}
        self.store = store
        self.pools = pools
        if DEFINITIONS in self.strategies:
            store.observe([DEFINITIONS], self._define)

    def hand_over(self, features: Features) -> "Registry":
        """Return the next server's registry, with the same objects. This registry then raises 503 errors."""
        served = {key: each.served(features) for key, each in self.strategies.items()}
        store = self.store.hand_over({key: each for key, each in served.items() if each is not None})
        return Registry(self.strategies.values(), features, store=store, pools=self.pools)

    def add(self, strategy: Strategy) -> None:
        with self.store.lock:
            self.store.serve(strategy.resource.key, strategy.served(self.features))
            self.strategies = {**self.strategies, strategy.resource.key: strategy}

    def strategy(self, resource: str) -> Strategy:
        """Return the strategy of a resource. Raises `ApiError` (404) if the server does not serve it."""
        found = self.strategies.get(resource)
        if found is None:
            raise status.no_such_path()
        return found

    def get(self, resource: str, namespace: str, name: str) -> StoredObject:
        strategy = self.strategy(resource)
        stored = self.store.get(resource, (namespace, name))
        if stored is None:
            raise status.not_found(strategy.resource, name)
        return stored

    def require_namespace(self, namespace: str, strategy: Strategy, name: str) -> None:
        """Raise `ApiError` if the namespace is missing (404), or the namespace (403) or CRD (405) is terminating."""
        if strategy.resource.custom and self._is_ending(strategy.resource.key):
            message = "create not allowed while custom resource definition is terminating"
            raise status.failure(405, "MethodNotAllowed", message)
        if not strategy.resource.namespaced:
            return
        if not namespace:
            raise status.bad_request("an empty namespace may not be set during creation")
        found = self.store.get(NAMESPACES, ("", namespace))
        if found is None:
            raise status.not_found(self.strategy(NAMESPACES).resource, namespace)
        if found.object["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise status.forbidden(strategy.resource, name, why, "NamespaceTerminating")

    def contents(self, namespace: str) -> list[tuple[str, StoredObject]]:
        return [
            (key, stored)
            for key, strategy in self.strategies.items()
            if strategy.resource.namespaced
            for stored in self.store.items(key)
            if stored.object["metadata"]["namespace"] == namespace
        ]

    def is_empty(self, namespace: str) -> bool:
        return not any(
            name[0] == namespace
            for key, strategy in self.strategies.items()
            if strategy.resource.namespaced
            for name in self.store.keys(key)
        )

    def _is_ending(self, definition: str) -> bool:
        found = self.store.get(DEFINITIONS, ("", definition))
        return found is not None and bool(found.object["metadata"].get("deletionTimestamp"))

    def _define(self, change: Change) -> None:
        """Serve the kind of a CustomResourceDefinition, or stop serving it. Built-in kinds cannot be redefined."""
        definition, key = change.new.object, change.new.object["metadata"]["name"]
        own = {
            (each.resource.group, each.resource.plural) for each in self.strategies.values() if each.resource.key != key
        }
        spec = definition["spec"]
        if (spec["group"], spec["names"]["plural"]) in own:
            return
        if change.type == "DELETED":
            self.strategies = {name: each for name, each in self.strategies.items() if name != key}
        elif change.old is None or change.old.object["spec"] != spec or key not in self.strategies:
            strategy = strategy_of(definition)
            self.store.serve(key, strategy.served(self.features))
            self.strategies = {**self.strategies, key: strategy}
