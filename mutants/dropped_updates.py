"""Filters of watch events, for faults that read a new object correctly but miss later changes to it.

A fault is a function of an object and its last delivered version. It returns the version to deliver now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mutants.client_wrappers import Filter, Sink, controller_hearing, proxy_hearing
from mutants.mutant import NO_ANSWER, REACHED, REFUSED, WRITTEN, Mutant
from reference.client import Event, Key, Object, key_of

SILENT = f"{NO_ANSWER}|{REFUSED}"
ANY = f"{REACHED}|{SILENT}"

Telling = Callable[[Object, Object], Object]
"""Returns the object to deliver. The arguments are the new object and its last delivered version."""


def proxy_hears(
    mutants: list[Mutant], name: str, sentence: str, *, symptom: str = REACHED, provenance: str = ""
) -> Callable[[Filter], Filter]:
    """Create a mutant from a filter for the events of a proxy."""

    def register(through: Filter) -> Filter:
        mutants.append(Mutant(name, sentence, provenance, symptom, proxy=proxy_hearing(through)))
        return through

    return register


def proxy_receives(
    mutants: list[Mutant], resource: str, name: str, sentence: str, **options: Any
) -> Callable[[Telling], Telling]:
    """Create a mutant whose proxy receives modified objects of a resource."""

    def register(tell: Telling) -> Telling:
        proxy_hears(mutants, name, sentence, **options)(told(resource, tell))
        return tell

    return register


def controller_receives(mutants: list[Mutant], name: str, sentence: str) -> Callable[[Telling], Telling]:
    """Create a mutant whose controller receives modified Services."""

    def register(tell: Telling) -> Telling:
        controller = controller_hearing(told("services", tell))
        mutants.append(Mutant(name, sentence, "", f"{WRITTEN}|{REACHED}", controller=controller))
        return tell

    return register


def told(resource: str, tell: Telling, *, beyond_deletion: bool = False) -> Filter:
    """Return a filter that changes the objects of a resource, beginning with the second event of each object."""

    def through(sink: Sink) -> Sink:
        before: dict[Key, Object] = {}

        def filtered(event: Event) -> None:
            if event.type == "SYNCED" or event.resource != resource:
                sink(event)
                return
            key = key_of(event.object)
            if event.type == "DELETED":
                if not beyond_deletion:
                    before.pop(key, None)
                sink(event)
                return
            before[key] = tell(event.object, before[key]) if key in before else event.object
            sink(Event(event.type, resource, before[key]))

        return filtered

    return through
