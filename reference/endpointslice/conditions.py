"""The conditions on a Service that report the state of its `trafficDistribution`.

Source: KEP-4444, Status Reporting, which proposes these conditions as a later addition. No release has them. `Accepted`
means that the value is known. `Programmed` means that the stored slices contain the hints for the value. `Honored`
means that the proxies of all nodes have these hints in the kernel.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reference.client import Object
from reference.endpointslice.hints import Mechanism, NoHints, PluginHeuristic, SameZoneOrNode
from reference.objects.endpoints import has_hints, is_ready, name_of

ACCEPTED = "TrafficDistributionAccepted"
PROGRAMMED = "TrafficDistributionProgrammed"
HONORED = "TrafficDistributionHonored"

TYPES = (ACCEPTED, PROGRAMMED, HONORED)

_MOST_NAMES = 10


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def accepted(by_field: Mechanism) -> Condition:
    """Return the condition Accepted from the result of `mechanism_of_field`, which ignores the topology annotation."""
    if isinstance(by_field, NoHints):
        return Condition(ACCEPTED, "False", "Unsupported", by_field.reason)
    return Condition(ACCEPTED, "True", "Supported", by_field.reason)


def programmed(is_accepted: Condition, decided_by: Mechanism, slices: Iterable[Object], failure: str) -> Condition:
    """Return the condition Programmed: whether all ready endpoints have hints. `failure` is the sync error, or ""."""
    if is_accepted.status != "True":
        return Condition(PROGRAMMED, "False", "NotAccepted", is_accepted.message)
    if not isinstance(decided_by, SameZoneOrNode | PluginHeuristic):
        return Condition(PROGRAMMED, "False", "OverriddenByAnnotation", decided_by.reason)
    if failure:
        return Condition(PROGRAMMED, "False", "SyncFailed", failure)
    ready = [endpoint for each in slices for endpoint in each.get("endpoints") or () if is_ready(endpoint)]
    if not ready:
        return Condition(PROGRAMMED, "False", "NoReadyEndpoints", "no endpoint is ready, so none has hints")
    return _all_hinted(ready, needs_nodes=isinstance(decided_by, SameZoneOrNode) and decided_by.nodes)


def _all_hinted(ready: Sequence[Object], *, needs_nodes: bool) -> Condition:
    bare = [each for each in ready if not has_hints(each)]
    if bare:
        placeless = not any(each.get("zone") for each in bare)
        reason = "EndpointWithoutZone" if placeless else "EndpointWithoutHints"
        message = (
            f"{len(bare)} of {len(ready)} ready endpoints have no hints, so proxies ignore the hints of the others: "
        )
        return Condition(PROGRAMMED, "False", reason, message + listed(map(name_of, bare)))
    zoned = [each for each in ready if needs_nodes and not each["hints"].get("forNodes")]
    if zoned:
        message = f"{len(zoned)} of {len(ready)} ready endpoints have no hints for nodes: "
        return Condition(PROGRAMMED, "False", "EndpointWithoutNodeHints", message + listed(map(name_of, zoned)))
    return Condition(PROGRAMMED, "True", "HintsPopulated", f"{len(ready)} ready endpoints have hints")


def honored(is_programmed: Condition, behind: Collection[str], silent: Collection[str]) -> Condition:
    """Return the condition Honored. `behind` nodes acknowledged an older revision, `silent` nodes none."""
    if is_programmed.status != "True":
        return Condition(HONORED, "False", "NotProgrammed", is_programmed.message)
    if behind:
        message = f"not yet acknowledged by {listed([*behind, *silent])}"
        return Condition(HONORED, "False", "NotYetAcknowledged", message)
    if silent:
        return Condition(HONORED, "Unknown", "NeverAcknowledged", f"no acknowledgement from {listed(silent)}")
    return Condition(HONORED, "True", "Acknowledged", "every node has acknowledged the newest hints")


def merged(present: Sequence[Object], wanted: Sequence[Condition], *, generation: Any, now: str) -> list[Object] | None:
    """Return all conditions, with `wanted` instead of this controller's old conditions, or None if nothing changes.

    Conditions of other writers keep their position. `lastTransitionTime` changes only when the status changes. If the
    Service has no generation, its conditions have no observedGeneration.
    """
    old = {str(each.get("type")): each for each in present}
    ours = {each.type: _written(each, old.get(each.type), generation, now) for each in wanted}
    stay = [each for each in present if each.get("type") in ours or each.get("type") not in TYPES]
    result = [ours.pop(str(each.get("type")), each) for each in stay]
    result += ours.values()
    return None if result == list(present) else result


def _written(condition: Condition, old: Object | None, generation: Any, now: str) -> Object:
    since = old.get("lastTransitionTime") if old is not None and old.get("status") == condition.status else None
    return {
        "type": condition.type,
        "status": condition.status,
        **({} if generation is None else {"observedGeneration": generation}),
        "lastTransitionTime": since or now,
        "reason": condition.reason,
        "message": condition.message,
    }


def listed(names: Iterable[str]) -> str:
    """Format the first 10 names in alphabetical order, and the number of further names."""
    ordered = sorted(names)
    more = len(ordered) - _MOST_NAMES
    return ", ".join(ordered[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
