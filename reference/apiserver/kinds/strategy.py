"""The strategy of a kind: defaults, validation and table columns. The method names are from Kubernetes.

For each write, the module `writes` calls these methods in order: `decode` (with the data that a client sent),
`default`, `prepare_for_create` (or `prepare_for_update`, `prepare_for_status_update`), and `validate` (or
`validate_update`, `validate_status_update`). Then `writes` allocates what `allocations` returns.
"""

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from reference.apiserver import merge_rules
from reference.apiserver.kinds import columns, metadata, names, shapes, versioned_fields
from reference.apiserver.kinds.columns import Column
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.merge_rules import ListRules
from reference.client import Object
from reference.features import Features, Version

ALL_BUT_STATUS = (
    ("spec",),
    *(("metadata", each) for each in ("labels", "annotations", "finalizers", "ownerReferences")),
)
"""The fields that a status write does not change, for most newer kinds."""


def api_version(group: str, version: str) -> str:
    """Return the `apiVersion` of a group and version. The name of the core group is ""."""
    return f"{group}/{version}" if group else version


_VERSION = re.compile(r"v(\d{1,9})(?:(alpha|beta)(\d{1,9}))?")


def version_rank(version: str) -> tuple[float, int, int, str]:
    """Return a key that sorts versions in this order: v10, v2, v11beta2, v3beta1, v12alpha1, and then other names."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return math.inf, 0, 0, version
    return {None: 0, "beta": 1, "alpha": 2}[match[2]], -int(match[1]), -int(match[3] or 0), version


@dataclass(frozen=True, slots=True)
class Resource:
    """The names, scope and capabilities of a kind, as in discovery documents."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = False
    categories: tuple[str, ...] = ()
    custom: bool = False

    @property
    def api_version(self) -> str:
        return api_version(self.group, self.version)

    @property
    def key(self) -> str:
        """The name of the resource in this server. Custom resources include the group: `gateways.example.com`."""
        return f"{self.plural}.{self.group}" if self.custom else self.plural


@dataclass(frozen=True, slots=True)
class Scale:
    """The paths of the fields behind the scale subresource. `selector` is () if the kind has no selector."""

    replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocations:
    """The addresses and ports that an object takes from the cluster's pools. Only Services need any.

    `cluster_ips` has an entry for each of `ip_families`: the requested address, or "" for any address. `node_ports` are
    indexes into `spec.ports`. Ports without a `nodePort` accept any number.
    """

    ip_families: tuple[str, ...] = ()
    cluster_ips: tuple[str, ...] = ()
    node_ports: tuple[int, ...] = ()
    health_check_node_port: bool = False


@dataclass(frozen=True, slots=True)
class OtherVersion:
    """Another group and version of the same stored objects. `strategy` is None if the stored rules apply to writes."""

    group: str
    version: str
    to_stored: Callable[[Object], Object]
    from_stored: Callable[[Object], Object]
    strategy: "Strategy | None" = None

    @property
    def api_version(self) -> str:
        return api_version(self.group, self.version)


class Strategy:
    """The rules of one kind. This base class implements the rules that most kinds share."""

    shape: ClassVar[shapes.Shape] = {shapes.OTHERS: shapes.ANY, **shapes.of_object()}
    resource: ClassVar[Resource]
    views: ClassVar[tuple[OtherVersion, ...]] = ()
    selectable_fields: ClassVar[Mapping[str, Callable[[Object], str]]] = {}
    """The fields that field selectors support, besides `metadata.name` and `metadata.namespace`."""

    kept_by_status: ClassVar[tuple[tuple[str, ...], ...]] = (("spec",),)
    """The fields that a write to the status subresource does not change."""

    scale: Scale | None = None

    grace_seconds: ClassVar[int] = 0
    """The default grace period of a deletion in seconds. With 0, the object is removed immediately."""

    generation_since: ClassVar[int] = 1000
    """The first minor version in which objects of this kind have `metadata.generation`."""

    table: Sequence[Column] = (columns.NAME, columns.AGE)
    """The columns of `kubectl get`, starting with the name."""

    def valid_name(self, name: str) -> list[str]:
        """Return the errors in a name. Most kinds require an RFC 1123 subdomain."""
        return names.dns_subdomain(name)

    @property
    def group_versions(self) -> "tuple[tuple[Resource | OtherVersion, Strategy], ...]":
        """The groups and versions that serve this kind, with the rules for each."""
        return (self.resource, self), *((each, self.rules(each)) for each in self.views)

    def rules(self, view: OtherVersion | None) -> "Strategy":
        """Return the strategy for requests in the group and version of `view`; None is the stored version."""
        return self if view is None or view.strategy is None else view.strategy

    def list_rules(self) -> ListRules:
        return merge_rules.list_rules(self.resource.kind)

    def served(self, features: Features) -> Callable[[Object], Object] | None:
        """Return a function that drops the fields that this release lacks, or None if there are no such fields."""
        paths = versioned_fields.absent(self.resource.kind, features.version, features.asked_for)
        return functools.partial(versioned_fields.without, paths=paths) if paths else None

    def decode(self, obj: Object, features: Features) -> list[str]:
        """Remove fields that this release lacks, and return their paths. Raises `ValueError` for a wrong JSON type."""
        shape = _shape_in(type(self), features.version, features.asked_for)  # type: ignore[arg-type]  # classes hash
        return shapes.conform(obj, shape)

    def default(self, obj: Object) -> None:
        """Set defaults, on create and on update. Idempotent."""

    def prepare_for_create(self, obj: Object, features: Features) -> None:
        """Drop fields that a client may not set or that are disabled."""
        if self.resource.has_status:
            obj.pop("status", None)

    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        """Copy from `old` the fields that an update may not change. Drop disabled fields unless `old` has them."""
        if self.resource.has_status:
            _keep(new, old, ("status",))

    def prepare_for_status_update(self, new: Object, old: Object) -> None:
        """Copy from `old` the fields that an update of the status subresource may not change."""
        for path in self.kept_by_status:
            _keep(new, old, path)

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return metadata.validate(obj, namespaced=self.resource.namespaced, valid_name=self.valid_name)

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        return metadata.validate_update(new, old) + self.validate(new, features)

    def validate_status_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found = metadata.validate_update(new, old)
        return found + metadata.validate(new, namespaced=self.resource.namespaced, valid_name=self.valid_name)

    def warnings(self, obj: Object, features: Features) -> list[str]:
        return []

    def spec_changed(self, new: Object, old: Object) -> bool:
        """Return whether an update increases `metadata.generation`, for kinds that have a generation."""
        apart = {"metadata", "status"} if self.resource.has_status else {"metadata"}
        return any(new.get(name) != old.get(name) for name in (new.keys() | old.keys()) - apart)

    def allocations(self, obj: Object) -> Allocations:
        """Return the addresses and ports that the object needs. A write frees those that only the old object needed."""
        return Allocations()


@functools.cache
def _shape_in(kind: type[Strategy], version: Version, asked_for: frozenset[str]) -> shapes.Shape:
    return versioned_fields.without(kind.shape, versioned_fields.absent(kind.resource.kind, version, asked_for))


def _keep(new: Object, old: Object, path: tuple[str, ...]) -> None:
    *parents, name = path
    for each in parents:
        new, old = new[each], old[each]
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)
