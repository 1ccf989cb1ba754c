"""Choose random values for each requirement of a run, one on each axis of variation (such as the IP family)."""

import re
import zlib
from collections.abc import Iterable, Mapping

from harness.backends.releases import RESTART
from harness.model.abilities import Ability
from harness.model.needs import Needs
from harness.model.release_features import minor_of
from harness.model.requirements import Profile, Requirement
from harness.run.plan import Plan, claimed
from harness.settings.claims import INSTALLED, REAL_CLUSTERS, RECIPE
from harness.settings.settings import Settings
from harness.variation import axes
from harness.variation.axes import PLAIN, DrawnValues, Value, parse_draw
from harness.variation.covering import VariedRequirement, draws

_FEATURE_OF: Mapping[str, Value] = {
    "IPv6": (axes.FAMILY, "second"),
    "UDP": (axes.PROTOCOL, "udp"),
    "NodePort": (axes.ADDRESS, "node-port"),
    "IPv6NodePorts": (axes.ADDRESS, "node-port"),
    "ExternalIPs": (axes.ADDRESS, "external-ip"),
}
"""The random values that require a feature: they occur only if the implementation claims the feature."""

_SELDOM = 8
"""With real programs, only one in `_SELDOM` requirements varies `components`, because restarts take seconds."""

_OF_PROXIES = (axes.ARRIVAL, axes.CONNECTIONS, f"{axes.CLIENT}=endpoint", f"{axes.NODES}=late", f"{axes.NODES}=bare")
_INERT: Mapping[Profile, tuple[str, ...]] = {
    Profile.API_SERVER: (*_OF_PROXIES, axes.NODES, axes.COMPONENTS, axes.LABELS),
    Profile.ENDPOINTSLICE_CONTROLLER: _OF_PROXIES,
    Profile.CLUSTER: _OF_PROXIES,
    Profile.DNS: (
        axes.CONNECTIONS,
        f"{axes.CLIENT}=endpoint",
        f"{axes.NODES}=bare",
        f"{axes.COMPONENTS}=restarted",
        f"{axes.ADDRESSES}=several",
    ),
}
"""The axes and values that have no effect on a profile's requirements, or allow several correct answers.

A controller need not update the zone of an endpoint when only the Node's label changes. No KEP says whether DNS answers
contain the additional addresses of an endpoint.
"""

_OWN: Mapping[Profile, tuple[str, ...]] = {
    Profile.ENDPOINTSLICE_CONTROLLER: (axes.BESIDE, axes.BYSTANDERS, axes.TARGETS),
    Profile.CLUSTER: (axes.TARGETS,),
    Profile.SERVICE_PROXY: (axes.ADDRESS,),
    Profile.DNS: (axes.QUERIES, f"{axes.COMPONENTS}=dns-restarted"),
}
"""The axes and values that apply only to some profiles."""

_INTERRUPTIONS = ("restarted", "dns-restarted", "disconnected")
"""The values of `components` that interrupt a component. They take seconds, or are impossible on a real cluster."""

_FIXED_ON_REAL_CLUSTERS = (
    *(axes.NAMES, axes.FAMILY, axes.PODS, axes.ADDRESS, axes.TARGETS, axes.LABELS, axes.BYSTANDERS, axes.CONNECTIONS),
)

_LONG = 3.0  # a case with fewer seconds never has 200 changes before it
_RESTARTS = {*RESTART.values(), Ability.CHANGE_RELEASE}

TYPICAL = 1.5  # the estimated seconds of a requirement of which only the id is known


def draws_of(
    requirements: Iterable[Requirement],
    settings: Settings,
    *,
    needs: Mapping[str, Needs] | None = None,
    seconds: Mapping[str, float] | None = None,
) -> dict[str, str]:
    """Return the draw (random values) of each requirement, as a string that `parse_draw` reads.

    The draws do not depend on the selected requirements, so a requirement has the same draw when it runs alone.
    """
    known = list(requirements)
    if settings.draw:
        only = parse_draw(settings.draw)
        return {each.id: str(only.without(*fixed(each))) for each in known}
    missing = {"=".join(value) for value in unavailable(known, settings)}
    one_family = any(
        each.name == "IPv6NodePorts" and not claimed(each, settings) for one in known for each in one.named
    )
    subjects = []
    for each in known:
        features = {feature.name for feature in each.features}
        not_varied = fixed(each) | missing | _too_expensive(each, needs or {}, seconds or {})
        if one_family and "NodePort" in features:
            not_varied.add(f"{axes.FAMILY}=second")
        if not settings.judges_reference and zlib.crc32(each.id.encode()) % _SELDOM:  # real programs take seconds
            not_varied.add(axes.COMPONENTS)
        subjects.append(VariedRequirement(each.id, each.profile, features, not_varied))
    return {requirement_id: str(draw) for requirement_id, draw in draws(subjects, settings.seed).items()}


def _too_expensive(each: Requirement, needs: Mapping[str, Needs], seconds: Mapping[str, float]) -> set[str]:
    """Return the values that take too long: a crowd of Services if components restart, 200 changes in a short test."""
    restarts = each.id in needs and bool(needs[each.id].abilities & _RESTARTS)
    short = seconds.get(each.id, _LONG) < _LONG
    return ({f"{axes.NEIGHBOURS}=crowd"} if restarts else set()) | ({f"{axes.HISTORY}=busy"} if short else set())


def fixed(requirement: Requirement) -> set[str]:
    """Return the axes and values that a requirement excludes, such as the protocol if it is about connections."""
    names_tcp = {axes.PROTOCOL} if re.search(r"\bconnections?\b", requirement.sentence) else set()
    others = {value for own in _OWN.values() for value in own} - {*_OWN.get(requirement.profile, ())}
    # A requirement with `answers` is a basic check, and sets its own kind of address.
    names_address = {axes.ADDRESS} if requirement.answers or "cluster IP" in requirement.sentence else set()
    return {*requirement.fixed, *_INERT.get(requirement.profile, ()), *names_tcp, *names_address, *others}


def unavailable(requirements: Iterable[Requirement], settings: Settings) -> frozenset[Value]:
    """Return the values that cannot occur in a run, because of its cluster or its implementation."""
    features = {feature for each in requirements for feature in each.features}
    found: set[Value] = {
        _FEATURE_OF[each.name] for each in features if each.name in _FEATURE_OF and not claimed(each, settings)
    }
    if len(settings.families) < 2:
        found.add((axes.FAMILY, "second"))
    if settings.proxy.kind == RECIPE:  # the recipe's programs know each node by one name only
        found.add((axes.NAMES, "cloud"))
    if settings.proxy.kind in (RECIPE, INSTALLED):  # additional addresses have no defined meaning
        found.add((axes.ADDRESSES, "several"))
    if settings.reference_minor < minor_of("1.23"):  # older controllers count control plane nodes
        found.add((axes.BYSTANDERS, "control-plane"))
    if not settings.judges_reference:  # other proxies may wait for the addresses of their Node when they start
        found.add((axes.NODES, "bare"))
    if settings.components.real or settings.backend in REAL_CLUSTERS:
        found |= {(axes.COMPONENTS, value) for value in _INTERRUPTIONS}  # they need seconds
    if settings.backend in REAL_CLUSTERS:
        found |= {(axis, value) for axis in _FIXED_ON_REAL_CLUSTERS for value in list(axes.AXES[axis])[1:]}
        found |= {(axes.NEIGHBOURS, "many"), (axes.NEIGHBOURS, "crowd"), (axes.NODES, "late"), (axes.NODES, "remade")}
    return frozenset(found)


def expensive_values(plan: Plan, requirement: Requirement | None) -> tuple[str, str]:
    """Return a requirement's values on expensive axes: `names` (another cluster) and `neighbours` (many objects)."""
    draw: DrawnValues = plan.draw_of(requirement.id) if requirement is not None else PLAIN
    return draw[axes.NAMES], draw[axes.NEIGHBOURS]
