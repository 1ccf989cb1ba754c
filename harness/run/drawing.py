"""Choose the drawn value of each variation axis for each requirement of a run."""

from __future__ import annotations

from collections.abc import Iterable

from harness.model.requirements import Requirement
from harness.run.plan import Plan, claimed
from harness.settings.claims import REAL_CLUSTERS, RECIPE
from harness.settings.settings import Settings
from harness.variation import axes
from harness.variation.axes import PLAIN, Draw, parse_draw
from harness.variation.covering import Subject, Value, draws

_SECOND_FAMILY = "IPv6Services"
"""The feature for Services of the second IP family."""


def draws_of(requirements: Iterable[Requirement], settings: Settings) -> dict[str, str]:
    """Return the draw of each requirement, as a text that `parse_draw` reads.

    The draws depend on the seed, the suite and the abilities of the cluster, but not on the selected requirements. A
    requirement therefore has the same draw when it runs alone.
    """
    known = list(requirements)
    if settings.draw:
        only = parse_draw(settings.draw)
        return {each.id: str(only.without(*each.fixed)) for each in known}
    subjects = [
        Subject(each.id, each.profile, {feature.name for feature in each.features}, set(each.fixed)) for each in known
    ]
    found = draws(subjects, settings.seed, unavailable(known, settings))
    return {requirement_id: str(draw) for requirement_id, draw in found.items()}


def unavailable(requirements: Iterable[Requirement], settings: Settings) -> frozenset[Value]:
    """Return the values that cannot occur in a run, because of its cluster or its implementation."""
    found: set[Value] = set()
    features = {feature for each in requirements for feature in each.features if feature.name == _SECOND_FAMILY}
    if len(settings.families) < 2 or not all(claimed(feature, settings) for feature in features):
        found.add((axes.FAMILY, "second"))
    if settings.proxy.kind == RECIPE:  # its programs and the pods they attach know a node by one name
        found.add((axes.NAMES, "cloud"))
    if settings.backend in REAL_CLUSTERS:
        found |= {(axes.NAMES, "cloud"), (axes.FAMILY, "second"), (axes.PODS, "others")}
        found |= {(axes.NEIGHBOURS, value) for value in ("many", "crowd")}
    return frozenset(found)


def surroundings(plan: Plan, requirement: Requirement | None) -> tuple[str, str]:
    """Return the drawn values that need a separate cluster or many other objects."""
    draw: Draw = plan.draw_of(requirement.id) if requirement is not None else PLAIN
    return draw[axes.NAMES], draw[axes.NEIGHBOURS]
