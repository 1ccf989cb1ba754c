"""Events, stored as core/v1. A view for events.k8s.io/v1 renames most fields."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from reference.apiserver.kinds import columns, errors
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import ANY, INTEGER, OBJECT_REFERENCE, OTHERS, STRING, TIME, fields, of_object
from reference.apiserver.kinds.strategy import OtherVersion, Resource, Strategy
from reference.client import Object
from reference.features import Features

_NEWER_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {newer: core for core, newer in _NEWER_NAMES.items()}
_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _to_core(obj: Object) -> Object:
    return {**{_CORE_NAMES.get(name, name): value for name, value in obj.items()}, "apiVersion": "v1"}


def _to_newer(obj: Object) -> Object:
    renamed = {_NEWER_NAMES.get(name, name): value for name, value in obj.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1"}


def _about(name: str) -> Callable[[Object], str]:
    return lambda obj: str(obj.get("involvedObject", {}).get(name, ""))


def _first(event: Mapping[str, Any]) -> str:
    return columns.age(event.get("firstTimestamp") or event.get("eventTime"))


def _last(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    seen = series.get("lastObservedTime") or event.get("lastTimestamp")
    return columns.age(seen) if seen else _first(event)


def _target(event: Object) -> str:
    about = event.get("involvedObject", {})
    return "/".join(each for each in (str(about.get("kind", "")).lower(), about.get("name", "")) if each)


def _source(event: Object) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    place = source.get("host") or event.get("reportingInstance") or ""
    return ", ".join(each for each in (component, place) if each)


def _count(event: Object) -> int:
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


_TABLE = (
    columns.text("Last Seen", "Time when the event last occurred.", _last),
    columns.text("Type", "Normal or Warning.", lambda event: event.get("type", "")),
    columns.text("Reason", "Reason, in one word.", lambda event: event.get("reason", "")),
    columns.text("Object", "Object that the event describes.", _target),
    columns.text("Subobject", "Part of the object that the event describes.", _about("fieldPath"), wide=True),
    columns.text("Source", "Component that reported the event.", _source, wide=True),
    columns.text("Message", "Message of the event.", lambda event: event.get("message", "").strip()),
    columns.text("First Seen", "Time when the event first occurred.", _first, wide=True),
    columns.Column("Count", "integer", "", "Number of times that the event occurred.", 1, _count),
    columns.Column("Name", "string", "name", "Name of the event.", 1, lambda event: event["metadata"]["name"]),
)


class Events(Strategy):
    resource = Resource("", "v1", "Event", "events", "event", ("ev",))
    shape = of_object(
        involvedObject=OBJECT_REFERENCE,
        related=OBJECT_REFERENCE,
        **fields(STRING, "reason", "message", "type", "action", "reportingComponent", "reportingInstance"),
        **fields(TIME, "firstTimestamp", "lastTimestamp", "eventTime"),
        count=INTEGER,
        source=fields(STRING, "component", "host"),
        series={"count": INTEGER, "lastObservedTime": TIME, OTHERS: ANY},
    )
    views = (OtherVersion("events.k8s.io", "v1", _to_core, _to_newer),)
    selectable_fields: ClassVar = {
        **{f"involvedObject.{name}": _about(name) for name in _ABOUT},
        "reason": lambda obj: obj.get("reason", ""),
        "reportingComponent": lambda obj: obj.get("reportingComponent", ""),
        "source": lambda obj: obj.get("source", {}).get("component", ""),
        "type": lambda obj: obj.get("type", ""),
    }
    table = _TABLE

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        found = super().validate(obj, features)
        about = obj.get("involvedObject") or {}
        namespace = obj["metadata"].get("namespace")
        if (about.get("namespace") or "default") != namespace:  # Events of cluster-scoped objects: `default`
            said = "does not match event.namespace"
            found.append(errors.invalid("involvedObject.namespace", about.get("namespace") or "", said))
        return found
