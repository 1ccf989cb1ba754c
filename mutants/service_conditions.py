"""Controllers that write correct slices, but wrong Events or conditions of Services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.client_wrappers import ClientWrapper, controller_through
from mutants.mutant import WRITTEN, Mutant
from reference.client import Client, Key, Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.conditions import ACCEPTED, HONORED, PROGRAMMED, Condition
from reference.endpointslice.status import ConditionWriter
from reference.features import Features
from reference.objects.timestamps import timestamp

MUTANTS: list[Mutant] = []


# Events


class _EventInterceptor(ClientWrapper):
    """A client that changes or drops the Events that a controller creates."""

    def __init__(self, client: Client, change: Callable[[Object], Object | None]) -> None:
        super().__init__(client)
        self._change = change

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        """Create an object. If it is an Event, apply `change` first."""
        changed = self._change(obj) if resource == "events" else obj
        return obj if changed is None else self._client.create(resource, namespace, changed)


def writing_events(change: Callable[[Object], Object | None]) -> Callable[..., EndpointSliceController]:
    """Return a controller that changes or drops its Events."""
    return controller_through(partial(_EventInterceptor, change=change))


def _of_failures(change: Callable[[Object], Object | None]) -> Callable[..., EndpointSliceController]:
    """Return a controller that changes or drops its Events about failed syncs."""
    return writing_events(lambda event: change(event) if event["reason"].startswith("FailedTo") else event)


def _with_the_field_alone(client: Client, *, features: Features, **options: Any) -> EndpointSliceController:
    knows_it = features.enabled("ServiceTrafficDistribution")
    made = EndpointSliceController if knows_it else _of_failures(lambda event: None)
    return made(client, features=features, **options)


def _first_failure_only(client: Client, **options: Any) -> EndpointSliceController:
    seen: set[str] = set()

    def change(event: Object) -> Object | None:
        about = event["involvedObject"]["uid"]
        is_first = about not in seen
        seen.add(about)
        return event if is_first else None

    return _of_failures(change)(client, **options)


MUTANTS += [
    Mutant(
        "tells-nobody-of-failures",
        "The controller writes no Event when a sync fails.",
        "kubernetes#103888",
        WRITTEN,
        controller=_of_failures(lambda event: None),
    ),
    Mutant(
        "tells-of-failures-with-the-field-alone",
        "With the ServiceTrafficDistribution gate off, the controller writes no Event when a sync fails.",
        "",
        WRITTEN,
        controller=_with_the_field_alone,
    ),
    Mutant(
        "tells-of-the-first-failure-only",
        "The controller writes an Event only when a sync of a Service fails for the first time.",
        "",
        WRITTEN,
        controller=_first_failure_only,
    ),
    Mutant(
        "failures-are-normal-events",
        "The Event of a failed sync has type Normal.",
        symptom=WRITTEN,
        controller=_of_failures(lambda event: {**event, "type": "Normal"}),
    ),
    Mutant(
        "failures-are-events-of-the-slice",
        "The Event of a failed sync refers to an EndpointSlice instead of the Service.",
        symptom=WRITTEN,
        controller=_of_failures(
            lambda event: {**event, "involvedObject": {**event["involvedObject"], "kind": "EndpointSlice"}}
        ),
    ),
]


# Conditions

Conditions = list[Condition]

Lie = Callable[[Key, Conditions], Conditions]
"""Returns the conditions to write. The arguments are the key of a Service and its correct conditions."""


class _WrongConditions(ConditionWriter):
    """Writes wrong conditions."""

    def __init__(self, *arguments: Any, lie: Lie) -> None:
        super().__init__(*arguments)
        self._lie = lie

    def _wanted(self, key: Key, service: Object) -> Conditions:
        return self._lie(key, super()._wanted(key, service))


class _WrongConditionsController(EndpointSliceController):
    def __init__(self, client: Client, *, lie: Callable[[], Lie], **options: Any) -> None:
        super().__init__(client, status=partial(_WrongConditions, lie=lie()), **options)


def _timed(name: str, sentence: str, time_of: Callable[[Object, Object | None], str]) -> Mutant:
    """Return a mutant that sets lastTransitionTime. `time_of` gets the condition to write and the stored condition."""

    class Writer(ConditionWriter):
        def _write(self, service: Object, status: Object) -> bool:
            stored = {each["type"]: each for each in (service.get("status") or {}).get("conditions") or ()}
            conditions = [
                {**each, "lastTransitionTime": time_of(each, stored.get(each["type"]))} for each in status["conditions"]
            ]
            return super()._write(service, {**status, "conditions": conditions})

    return Mutant(name, sentence, "", WRITTEN, controller=partial(EndpointSliceController, status=Writer))


def _turned(kind: str, status: Any, *, if_: str = "") -> Callable[[], Lie]:
    """Set the status of the condition `kind` if the condition `if_` is True. If `if_` is empty, always set it."""

    def lie(_: Key, right: Conditions) -> Conditions:
        if if_ and not any(each.type == if_ and each.status == "True" for each in right):
            return right
        return [replace(each, status=status) if each.type == kind else each for each in right]

    return lambda: lie


def _true_despite(reason: str) -> Callable[[], Lie]:
    """Set the status of each condition with this reason to True."""

    def lie(_: Key, right: Conditions) -> Conditions:
        return [replace(each, status="True") if each.reason == reason else each for each in right]

    return lambda: lie


def _not_accepted_if_overridden(_: Key, right: Conditions) -> Conditions:
    overridden = any(each.reason == "OverriddenByAnnotation" for each in right)
    return [replace(each, status="False") if overridden and each.type == ACCEPTED else each for each in right]


def _outliving() -> Lie:
    last: dict[Key, Conditions] = {}

    def lie(key: Key, right: Conditions) -> Conditions:
        last[key] = right or last.get(key, [])
        return last[key]

    return lie


def _bare_name(_: Key, right: Conditions) -> Conditions:
    return [*right, Condition("TrafficDistributionBalanced", "True", "Balanced", "shares are even")] if right else right


def _condition(name: str, sentence: str, lie: Callable[[], Lie]) -> Mutant:
    return Mutant(name, sentence, "", WRITTEN, controller=partial(_WrongConditionsController, lie=lie))


MUTANTS += [
    _condition(
        "says-accepted-of-anything", "The Accepted condition is True for every value.", _turned(ACCEPTED, "True")
    ),
    _condition(
        "says-accepted-of-nothing", "The Accepted condition is False for every value.", _turned(ACCEPTED, "False")
    ),
    _condition(
        "says-programmed-when-accepted",
        "The Programmed condition is True as soon as the value is accepted.",
        _turned(PROGRAMMED, "True", if_=ACCEPTED),
    ),
    _condition(
        "says-programmed-of-refused-slices",
        "The Programmed condition is True when the API server rejects the slices.",
        _true_despite("SyncFailed"),
    ),
    _condition(
        "annotation-ends-acceptance",
        "The Accepted condition is False for a known value if the Service has the topology annotation.",
        lambda: _not_accepted_if_overridden,
    ),
    _condition(
        "says-honored-when-programmed",
        "The Honored condition is True as soon as hints are written.",
        _turned(HONORED, "True", if_=PROGRAMMED),
    ),
    _condition(
        "programmed-by-zone-hints-alone",
        "The Programmed condition of PreferSameNode is True as soon as all endpoints have zone hints.",
        _true_despite("EndpointWithoutNodeHints"),
    ),
    _timed(
        "condition-has-the-time-of-its-write",
        "When a condition of a Service is written, all conditions get the current time as lastTransitionTime.",
        lambda _, __: timestamp(),
    ),
    _timed(
        "condition-keeps-its-first-time",
        "The lastTransitionTime of a condition never changes.",
        lambda written, stored: str((stored or written)["lastTransitionTime"]),
    ),
    _condition("says-honored-of-nothing", "The Honored condition is never True.", _turned(HONORED, "Unknown")),
    _condition(
        "conditions-outlive-the-field", "The conditions remain when trafficDistribution is removed.", _outliving
    ),
    _condition(
        "condition-without-domain",
        "A condition that only this implementation uses has no domain prefix.",
        lambda: _bare_name,
    ),
]
