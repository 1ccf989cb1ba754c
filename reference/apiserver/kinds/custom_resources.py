"""Custom resources: a strategy for each version of a CustomResourceDefinition. Versions share the stored objects."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from reference.apiserver import merge_rules
from reference.apiserver.kinds import columns, json_paths, metadata, shapes
from reference.apiserver.kinds.columns import Column
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.schemas import Schema
from reference.apiserver.kinds.strategy import OtherVersion, Resource, Scale, Strategy, api_version, version_rank
from reference.client import Object
from reference.features import Features

_IDENTITY: Mapping[str, shapes.Shape] = shapes.of_object()
_KEPT = ("status", "metadata")


def strategy_of(definition: Object) -> Strategy:
    """Return the strategy of a definition's storage version, with views for the other versions that are served."""
    versions = definition["spec"]["versions"]
    stored = next(each for each in versions if each["storage"])
    views = tuple(_view(definition, each, stored) for each in versions if each["served"] and each is not stored)
    return CustomResources(definition, stored, stored["name"], views)


class CustomResources(Strategy):
    generation_since = 0

    def __init__(self, definition: Object, version: Object, stored: str, views: tuple[OtherVersion, ...] = ()) -> None:
        spec, subresources = definition["spec"], version.get("subresources") or {}
        names = spec["names"]
        self.resource = Resource(  # type: ignore[misc]  # each instance is for another kind
            spec["group"],
            stored,
            names["kind"],
            names["plural"],
            names.get("singular") or names["kind"].lower(),
            tuple(names.get("shortNames") or ()),
            namespaced=spec["scope"] == "Namespaced",
            has_status="status" in subresources,
            categories=tuple(names.get("categories") or ()),
            custom=True,
        )
        self.views = views  # type: ignore[misc]
        self.version = version
        good = [each["name"] for each in spec["versions"] if each["served"] and not each.get("deprecated")]
        self._instead = min(good, key=version_rank, default="")
        self.schema = Schema(version["schema"]["openAPIV3Schema"])
        self._list_rules = {**merge_rules.list_rules(""), **self.schema.list_rules()}
        self.scale = _scale(subresources.get("scale"))
        self.selectable_fields = {  # type: ignore[misc]
            each["jsonPath"].removeprefix("."): functools.partial(_text, path=each["jsonPath"])
            for each in version.get("selectableFields") or ()
        }
        shown = [_column(each) for each in version.get("additionalPrinterColumns") or ()]
        self.table = (columns.NAME, *(shown or [columns.AGE]))

    @property
    def group_versions(self) -> tuple[tuple[Resource | OtherVersion, Strategy], ...]:
        return super().group_versions if self.version["served"] else super().group_versions[1:]

    def list_rules(self) -> merge_rules.ListRules:
        return self._list_rules

    def served(self, features: Features) -> Callable[[Object], Object]:
        return self._now

    def decode(self, obj: Object, features: Features) -> list[str]:
        identity = {name: obj[name] for name in _IDENTITY if name in obj}
        unknown = shapes.conform(identity, _IDENTITY)
        for name in _IDENTITY:  # `conform` removed nulls only from the copy
            if name in obj and name not in identity:
                del obj[name]
        return sorted(unknown + self.schema.prune(obj))

    def default(self, obj: Object) -> None:
        self.schema.default(obj)

    def prepare_for_status_update(self, new: Object, old: Object) -> None:
        kept = {name: new[name] for name in _KEPT if name in new}
        managed = kept["metadata"].get("managedFields")
        new.clear()
        new.update({name: value for name, value in old.items() if name != "status"} | kept)
        new["metadata"] = {**old["metadata"], **({"managedFields": managed} if managed else {})}

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return super().validate(obj, features) + self.schema.validate(obj)

    def validate_status_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        return metadata.validate_update(new, old) + self.validate(new, features)

    def warnings(self, obj: Object, features: Features) -> list[str]:
        if not self.version.get("deprecated"):
            return []
        kind = f"{api_version(self.resource.group, self.version['name'])} {self.resource.kind}"
        use = f"; use {api_version(self.resource.group, self._instead)} {self.resource.kind}" if self._instead else ""
        return [self.version.get("deprecationWarning") or f"{kind} is deprecated{use}"]

    def _now(self, obj: Object) -> Object:
        """Return an object, pruned and defaulted with the current schema, or the same object if nothing changes."""
        made: Object = orjson.loads(orjson.dumps(obj))
        made["apiVersion"] = self.resource.api_version
        self.schema.prune(made)
        self.schema.default(made)
        return obj if made == obj else made


def _view(definition: Object, version: Object, stored: Object) -> OtherVersion:
    group, name = definition["spec"]["group"], version["name"]
    rules = CustomResources(definition, version, stored["name"])
    inside, outside = rules.resource.api_version, api_version(group, name)
    equal = version["schema"] == stored["schema"]

    def to_stored(obj: Object) -> Object:
        correct = (obj.get("apiVersion") or outside) == outside
        return {**obj, "apiVersion": inside} if correct else {**obj, "apiVersion": f"{obj['apiVersion']} (not {name})"}

    def from_stored(obj: Object) -> Object:
        obj["apiVersion"] = outside
        if not equal:
            rules.schema.prune(obj)
            rules.schema.default(obj)
        return obj

    return OtherVersion(group, name, to_stored, from_stored, rules)


def _scale(given: Mapping[str, Any] | None) -> Scale | None:
    if given is None:
        return None
    paths = (given.get(name) for name in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath"))
    return Scale(*(json_paths.fields(each) if each else () for each in paths))


def _column(given: Mapping[str, Any]) -> Column:
    kind, path = given["type"], given["jsonPath"]

    def cell(obj: Object) -> Any:
        found = json_paths.find(obj, path)
        return _cell(found[0] if found else None, kind)

    described = given.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    return Column(given["name"], kind, given.get("format") or "", described, given.get("priority") or 0, cell)


def _cell(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "date":
        valid = isinstance(value, str) and shapes.is_time(value)
        return columns.age(value) if valid else "<invalid>"
    if kind in {"integer", "number"}:
        return None if type(value) not in {int, float} else int(value) if kind == "integer" else value
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _text(obj: Object, path: str) -> str:
    found = json_paths.find(obj, path)
    return "" if not found or found[0] is None else found[0] if isinstance(found[0], str) else str(found[0]).lower()
