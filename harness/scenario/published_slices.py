"""The EndpointSlices that a scenario writes itself. Random variation may split one slice into several slices."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from harness.api.client import Object
from harness.backends.scenario_backend import ScenarioBackend
from harness.scenario.service import Service
from harness.scenario.unrelated_objects import UnrelatedObjects
from harness.variation import axes, objects
from harness.variation.axes import DrawnValues

_NOWHERE = f"{axes.ADDRESSES}=nowhere"


@dataclass(frozen=True, slots=True)
class _PublishedSlice:
    """A slice as the scenario specified it, its random values, and the slices written for it (by name)."""

    service: Service
    draw: DrawnValues
    written: Object
    slices: Mapping[str, Object]


@dataclass(slots=True)
class PublishedSlices:
    """The slices that one scenario wrote itself. `nodes` maps each address to its last written nodeName."""

    backend: ScenarioBackend
    namespace: str
    unrelated: UnrelatedObjects
    nodes: dict[str, str | None] = field(default_factory=dict)
    _known: dict[str, _PublishedSlice] = field(default_factory=dict)  # by the slice name that the scenario uses
    _number: int = 0  # number of slices written since the last `forget`

    def forget(self) -> None:
        self._known.clear()
        self._number = 0

    def write(self, service: Service, wanted: Object) -> None:
        """Write the slices that represent one slice of the scenario. If there are several, skip unchanged slices."""
        name = wanted["metadata"]["name"]
        known = self._known.get(name) or _PublishedSlice(service, self._draw_of_new(service), wanted, {})
        owner = self.unrelated.owner_of_slices(known.draw)
        parts = objects.slices(known.draw, wanted, service.ports, service.more_ports, before=known.slices, owner=owner)
        slices = {each["metadata"]["name"]: each for each in parts}
        for part, each in slices.items():
            for one in each["endpoints"]:
                self.nodes |= dict.fromkeys(one["addresses"], one.get("nodeName"))
            if part not in known.slices:
                self._create(known.draw, each)
            elif len(slices) == 1 or known.slices[part] != each:  # the only slice is written even if it is unchanged
                self.backend.api.replace("endpointslices", self.namespace, each)
        self._known[name] = replace(known, written=wanted, slices=slices)
        self.delete(known.slices.keys() - slices.keys())

    def write_without_service(self, draw: DrawnValues, wanted: Object) -> None:
        """Create the slices that represent a new slice of the scenario. Its Service need not exist yet."""
        draw = self._next(draw).without(_NOWHERE)
        for each in objects.slices(draw, wanted, owner=self.unrelated.owner_of_slices(draw)):
            self._create(draw, each)

    def write_nodes(self, service: Service, patch: Object) -> None:
        """Add the omitted nodeName to endpoints, if this patch makes the traffic of a Service depend on nodes."""
        for name, each in list(self._known.items()) if objects.needs_nodes(patch) else ():
            if each.service is service and each.draw.without(_NOWHERE) != each.draw:
                self._known[name] = replace(each, draw=each.draw.without(_NOWHERE))
                self.write(service, each.written)

    def withdraw(self, name: str) -> None:
        """Delete the slices that represent this slice of the scenario. If there are none, delete the slice itself."""
        known = self._known.pop(name, None)
        self.delete(known.slices if known else [name])

    def delete(self, names: Iterable[str]) -> None:
        for each in sorted(names):
            self.backend.api.delete("endpointslices", self.namespace, each)

    def _create(self, draw: DrawnValues, obj: Object) -> None:
        exists = self.unrelated.before_slice(draw, obj)
        (self.backend.api.replace if exists else self.backend.api.create)("endpointslices", self.namespace, obj)

    def _next(self, draw: DrawnValues) -> DrawnValues:
        self._number += 1
        return axes.within_limits(draw, self._number)

    def _draw_of_new(self, service: Service) -> DrawnValues:
        draw = self._next(service.draw)
        if service.selector:  # the controller deletes slices that it seems to own, and scenarios compare endpoints
            draw = draw.without(axes.OWNER, axes.HINTS, axes.ENDPOINTS, axes.ADDRESSES)
        return draw.without(_NOWHERE) if objects.needs_nodes(service.object) else draw
