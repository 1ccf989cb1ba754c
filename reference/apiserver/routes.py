"""Maps a URL path to a resource and, if the path has a name, to an object."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from reference.apiserver import status
from reference.apiserver.kinds import OtherVersion, Strategy
from reference.apiserver.registry import ObjectRef, Registry

_OF_NAMESPACE_ITSELF = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Route(ObjectRef):
    """The object (or collection, if `name` is "") at a path, and the strategy of its kind in this group and version."""

    strategy: Strategy = field(kw_only=True)

    @property
    def api_version(self) -> str:
        return self.view.api_version if self.view else self.strategy.resource.api_version


class Routes:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: object = None
        self._served: dict[tuple[str, str, str], tuple[Strategy, OtherVersion | None]] = {}

    def find(self, path: str) -> Route:
        """Return the route of a path below /api/VERSION or /apis/GROUP/VERSION. Raises `ApiError` (404)."""
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            return self._route("", parts[1], parts[2:])
        if parts[0] == "apis" and len(parts) > 3:
            return self._route(parts[1], parts[2], parts[3:])
        raise status.no_such_path()

    def _route(self, group: str, version: str, parts: Sequence[str]) -> Route:
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in _OF_NAMESPACE_ITSELF:
            namespace, parts = parts[1], parts[2:]
        if len(parts) > 3:
            raise status.no_such_path()
        plural, name, subresource = (*parts, "", "")[:3]
        served = self._table().get((group, version, plural))
        if served is None or bool(namespace) > served[0].resource.namespaced:
            raise status.no_such_path()
        if name and served[0].resource.namespaced and not namespace:
            raise status.no_such_path()
        strategy, view = served
        return Route(strategy.resource.key, namespace, name, subresource, view, strategy=strategy)

    def _table(self) -> dict[tuple[str, str, str], tuple[Strategy, OtherVersion | None]]:
        strategies = self._registry.strategies
        if self._known is not strategies:
            self._served = {}
            for strategy in strategies.values():
                for place, rules in strategy.group_versions:
                    view = place if isinstance(place, OtherVersion) else None
                    self._served[place.group, place.version, strategy.resource.plural] = rules, view
            self._known = strategies
        return self._served
