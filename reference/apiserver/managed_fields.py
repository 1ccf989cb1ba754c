"""`metadata.managedFields`, the owners of fields for server-side apply.

Owners are tracked only after the first apply to an object. Other objects have no managedFields and no overhead. At the
first apply, all existing fields are assigned to the manager `before-first-apply`, as in old clusters.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from reference.apiserver.field_sets import FieldPath, decode, encode, flatten
from reference.apiserver.merge_rules import ListRules
from reference.client import Object
from reference.objects.timestamps import timestamp

BEFORE = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry: the manager, its operation ("Apply" or "Update"), the subresource, and its fields."""

    manager: str
    operation: str
    subresource: str
    fields: frozenset[FieldPath]
    api_version: str
    time: str

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.manager, self.operation, self.subresource

    def without(self, fields: Iterable[FieldPath]) -> "Owner":
        return replace(self, fields=self.fields.difference(fields))


def read(entries: Any) -> list[Owner]:
    return [
        Owner(
            each.get("manager") or "",
            each.get("operation") or "",
            each.get("subresource") or "",
            frozenset(decode(each.get("fieldsV1") or {}) - {()}),
            each.get("apiVersion") or "",
            each.get("time") or "",
        )
        for each in entries or ()
    ]


def write(owners: Iterable[Owner]) -> list[Object]:
    """Return managedFields. Owners without fields are left out."""
    return [
        {
            "manager": each.manager,
            "operation": each.operation,
            "apiVersion": each.api_version,
            "time": each.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode(each.fields),
            **({"subresource": each.subresource} if each.subresource else {}),
        }
        for each in owners
        if each.fields
    ]


def before_first_apply(live: Object, rules: ListRules) -> Owner:
    """Return the entry that owns all fields of an object to which apply was never used."""
    return new_owner(BEFORE, "Update", "", flatten(live, rules), live)


def new_owner(manager: str, operation: str, subresource: str, fields: Iterable[FieldPath], obj: Object) -> Owner:
    return Owner(manager, operation, subresource, frozenset(fields), obj["apiVersion"], timestamp())


def track(new: Object, old: Object, manager: str, rules: ListRules, *, subresource: str = "") -> None:
    """Record `manager` in `new` as the owner of all changes since `old`, if owners are tracked for this object."""
    before = old["metadata"].get("managedFields")
    if not before:
        new["metadata"].pop("managedFields", None)
        return
    entries = new["metadata"].get("managedFields", before)
    was, now = flatten(old, rules), flatten(new, rules)
    changed = {path for path, value in now.items() if path not in was or was[path] != value}
    gone = was.keys() - now.keys()
    if changed or gone:
        entries = write(_moved(read(entries), changed, gone=gone, by=(manager, "Update", subresource), obj=new))
    if entries and entries != [{}]:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)


def _moved(
    owners: list[Owner], changed: set[FieldPath], *, gone: set[FieldPath], by: tuple[str, str, str], obj: Object
) -> list[Owner]:
    lost = gone | changed
    kept = [each.without(gone if each.identity == by else lost) for each in owners]
    for index, owner in enumerate(kept):
        if owner.identity == by:
            kept[index] = new_owner(*by, owner.fields | changed, obj)
            return kept
    return [*kept, new_owner(*by, changed, obj)] if changed else kept
