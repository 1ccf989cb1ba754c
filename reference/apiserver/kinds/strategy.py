"""The strategy of a kind: its defaults, its validation, and how it is shown.

The store knows nothing of Services or Nodes. For every write it takes a private copy of the object and calls, in
this order, `decode` (on what a client sent, before anything else), `default`, `prepare_for_create` (or
`prepare_for_update`, `prepare_for_status_update`), `validate` (or `validate_update`, `validate_status_update`), and
only then hands out what `allocations` asks for. The names are those of Kubernetes' registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from reference.apiserver.kinds import columns, metadata, names, shapes, versioned_fields
from reference.apiserver.kinds.columns import Column
from reference.apiserver.kinds.errors import FieldError
from reference.client import Object
from reference.features import Features, Version

__all__ = ["Allocations", "Column", "FieldError", "Resource", "Strategy", "View", "api_version"]

NEWEST = Features()


def api_version(group: str, version: str) -> str:
    """The `apiVersion` of a group and version; the core group is the empty string."""
    return f"{group}/{version}" if group else version


@dataclass(frozen=True, slots=True)
class Resource:
    """The name of a kind in every form that discovery lists, and what the server does for it."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = False
    categories: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return api_version(self.group, self.version)


@dataclass(frozen=True, slots=True)
class Allocations:
    """The addresses and ports that an object takes from the cluster's pools; only Services take any.

    `cluster_ips` holds an entry for each of `ip_families`, in order: the address asked for, or "" for any. `node_ports`
    are indexes into `spec.ports`; a port that names its `nodePort` wants that one, a port without wants any.
    """

    ip_families: tuple[str, ...] = ()
    cluster_ips: tuple[str, ...] = ()
    node_ports: tuple[int, ...] = ()
    health_check_node_port: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A second group and version under which the same stored objects are served, with the fields renamed."""

    group: str
    version: str
    to_stored: Callable[[Object], Object]
    from_stored: Callable[[Object], Object]

    @property
    def api_version(self) -> str:
        return api_version(self.group, self.version)


class Strategy:
    """The rules of a kind; the base has those that most kinds share."""

    shape: ClassVar[shapes.Shape] = {shapes.OTHERS: shapes.ANY, **shapes.of_object()}
    resource: ClassVar[Resource]
    views: ClassVar[tuple[View, ...]] = ()
    selectable_fields: ClassVar[Mapping[str, Callable[[Object], str]]] = {}
    """Field selectors that the kind adds to `metadata.name` and `metadata.namespace`."""

    kept_by_status: ClassVar[tuple[tuple[str, ...], ...]] = (("spec",),)
    """The fields that a write of the status subresource leaves as they are; labels and annotations it does change."""

    grace_seconds: ClassVar[int] = 0
    """The default grace period of a deletion in seconds; 0: the object is removed at once."""

    def valid_name(self, name: str) -> list[str]:
        """Complaints about a name; most kinds take an RFC 1123 subdomain."""
        return names.dns_subdomain(name)

    def decode(self, obj: Object, features: Features, known: Object | None = None) -> list[str]:
        """Take out the fields that this kind does not have in this version, and return their paths.

        A server warns of them (`unknown field "spec.x"`), or refuses with 400 when asked to be strict. Raises
        `ValueError` with the text for a 400 when a value has the wrong JSON type.

        `known` is an object that this server, with the same features, has stored: the fields that are the same in both
        were decoded before (3 for 13 us, a slice of ten endpoints).
        """
        shape, fits = _shape_in(type(self), features)
        news = {name: value for name, value in obj.items() if not known or not shapes.same(value, known.get(name))}
        return [] if fits(news) else shapes.conform(obj, shape)

    def has_generation(self, features: Features) -> bool:
        """Return whether objects of this kind carry `metadata.generation` (1 when created)."""
        return False

    def default(self, obj: Object) -> None:
        """Fill in what the client left out. Idempotent; called on create and on update."""

    def prepare_for_create(self, obj: Object, features: Features) -> None:
        """Drop what a client may not set or what is disabled."""
        if self.resource.has_status:
            obj.pop("status", None)

    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        """Keep what an update may not touch, and drop what is disabled unless `old` has it."""
        if self.resource.has_status:
            _keep(new, old, ("status",))

    def prepare_for_status_update(self, new: Object, old: Object) -> None:
        """Keep everything that an update of the status subresource may not touch."""
        for path in self.kept_by_status:
            _keep(new, old, path)

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        """Return the errors of an object that is to be created."""
        return metadata.validate(obj, namespaced=self.resource.namespaced, valid_name=self.valid_name)

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        """Return the errors of an object that is to replace `old`."""
        return metadata.validate_update(new, old) + self.validate(new, features)

    def validate_status_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        """Return the errors of a write of the status subresource."""
        found = metadata.validate_update(new, old)
        return found + metadata.validate(new, namespaced=self.resource.namespaced, valid_name=self.valid_name)

    def warnings(self, obj: Object, features: Features = NEWEST) -> list[str]:
        """Texts for `Warning` headers, as this version gives them."""
        return []

    def spec_changed(self, new: Object, old: Object) -> bool:
        """Return whether `metadata.generation` goes up; only called when `has_generation`."""
        return new.get("spec") != old.get("spec")

    def allocations(self, new: Object, old: Object | None) -> Allocations:
        """Return what the object holds of the pools after this write; the rest of what `old` held is released."""
        return Allocations()

    def table(self) -> list[Column]:
        """The columns of `kubectl get`, first the name."""
        return [columns.NAME, columns.AGE]


_SHAPES: dict[tuple[type[Strategy], Version, frozenset[str]], tuple[shapes.Shape, Callable[[Any], bool]]] = {}


def _shape_in(kind: type[Strategy], features: Features) -> tuple[shapes.Shape, Callable[[Any], bool]]:
    key = kind, features.version, features.asked_for
    found = _SHAPES.get(key)
    if found is None:
        shape = versioned_fields.without(kind.shape, versioned_fields.absent(kind.resource.kind, *key[1:]))
        found = _SHAPES[key] = shape, shapes.fits(shape)
    return found


def _keep(new: Object, old: Object, path: tuple[str, ...]) -> None:
    *parents, name = path
    for each in parents:
        new, old = new[each], old[each]
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)
