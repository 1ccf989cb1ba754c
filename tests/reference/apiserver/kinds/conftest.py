"""Apply the rules of a kind to writes of one object, without a store."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from reference.apiserver.kinds import Strategy, strategies
from reference.client import Object
from reference.features import Features, Reading, parse_version

Build = Callable[..., Object]


class StrategyTester:
    """Applies the store's defaults and validation to an object, without allocating addresses."""

    def __init__(self, families: tuple[str, ...] = ("IPv4", "IPv6")) -> None:
        self.by_plural: dict[str, Strategy] = {
            each.resource.plural: each for each in strategies(service_families=families)
        }

    def create(
        self, plural: str, obj: Object, *, version: str = "1.37", gates: dict[str, bool] | None = None
    ) -> Object:
        """Return the object as stored. Fail if the object is invalid."""
        prepared, refused = self._create(plural, obj, version, gates or {})
        assert refused == []
        return prepared

    def refusals(
        self, plural: str, obj: Object, *, version: str = "1.37", gates: dict[str, bool] | None = None
    ) -> list[str]:
        """Return the errors of a creation as `path: message`."""
        return self._create(plural, obj, version, gates or {})[1]

    def update(self, plural: str, old: Object, new: Object, **how: Any) -> Object:
        """Return the stored object after an update of `old`. Fail if the update is invalid."""
        prepared, refused = self._update(plural, old, new, **how)
        assert refused == []
        return prepared

    def update_refusals(self, plural: str, old: Object, new: Object, **how: Any) -> list[str]:
        """Return the errors of an update as `path: message`."""
        return self._update(plural, old, new, **how)[1]

    def update_status(self, plural: str, old: Object, new: Object) -> tuple[Object, list[str]]:
        """Return the object after a write of the status subresource, and the errors."""
        strategy, new = self.by_plural[plural], copy.deepcopy(new)
        strategy.default(new)
        strategy.prepare_for_status_update(new, old)
        return new, [str(each) for each in strategy.validate_status_update(new, old, Features())]

    def _create(self, plural: str, obj: Object, version: str, gates: dict[str, bool]) -> tuple[Object, list[str]]:
        strategy, obj, features = self.by_plural[plural], copy.deepcopy(obj), Features(parse_version(version), gates)
        strategy.decode(obj, features)
        strategy.default(obj)
        strategy.prepare_for_create(obj, features)
        return obj, [str(each) for each in strategy.validate(obj, features)]

    def _update(
        self,
        plural: str,
        old: Object,
        new: Object,
        *,
        version: str = "1.37",
        gates: dict[str, bool] | None = None,
        follows: Reading = "kep",
    ) -> tuple[Object, list[str]]:
        strategy, new, features = (
            self.by_plural[plural],
            copy.deepcopy(new),
            Features(parse_version(version), gates or {}, follows),
        )
        strategy.decode(new, features)
        strategy.default(new)
        strategy.prepare_for_update(new, old, features)
        return new, [str(each) for each in strategy.validate_update(new, old, features)]


@pytest.fixture(scope="session")
def rules() -> StrategyTester:
    """The rules of a dual-stack cluster, IPv4 first."""
    return StrategyTester()


@pytest.fixture
def rules_of() -> Callable[[tuple[str, ...]], StrategyTester]:
    """The rules of a cluster with the given Service CIDRs."""
    return StrategyTester


@pytest.fixture
def service() -> Build:
    """A minimal valid Service; arguments are fields of the spec."""

    def build(*, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
        fields = {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
        meta: Object = {"name": "web", "namespace": "default"}
        if annotations:
            meta["annotations"] = annotations
        present = {name: value for name, value in fields.items() if value is not None}
        return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": copy.deepcopy(present)}

    return build


@pytest.fixture
def endpoint() -> Build:
    """A minimal valid endpoint; arguments are its fields."""

    def build(**fields: Any) -> Object:
        return {"addresses": ["10.244.1.5"], **fields}

    return build


@pytest.fixture
def slice_of() -> Build:
    """A minimal valid EndpointSlice with the given endpoints; keyword arguments are top-level fields."""

    def build(*endpoints: Object, **fields: Any) -> Object:
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "web-abc", "namespace": "default"},
            "addressType": "IPv4",
            "endpoints": list(endpoints),
            "ports": [{"name": "http", "port": 80}],
            **fields,
        }

    return build


@pytest.fixture
def pod() -> Build:
    """A minimal valid Pod; arguments are fields of the spec."""

    def build(**spec: Any) -> Object:
        containers = [{"name": "main", "image": "server:1"}]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web-1", "namespace": "default"},
            "spec": {"containers": containers, **spec},
        }

    return build


@pytest.fixture
def node() -> Build:
    """A minimal valid Node; arguments are fields of the spec, `status` is the status."""

    def build(*, status: Object | None = None, labels: dict[str, str] | None = None, **spec: Any) -> Object:
        meta: Object = {"name": "a1", "labels": labels or {"topology.kubernetes.io/zone": "zone-a"}}
        return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status or {}}

    return build
