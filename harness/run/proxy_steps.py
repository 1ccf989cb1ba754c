"""What `trafficdist proxy check` asks of a proxy, in the words of scenarios.

Few questions, in the order in which a new proxy comes to answer them. Where one is answered wrongly, those that build
on it are not asked: they would say the same again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.api.client import RefusedError
from harness.errors import IneligibleError
from harness.model.topology import grid
from harness.scenario.cluster import Cluster
from harness.scenario.service import endpoint, placeless, same_zone
from harness.scenario.traffic import expect_traffic

TWO_ZONES = grid("two_zones", {"a": 1, "b": 1})
"""The fewest nodes that show whether hints are followed."""

_HINTS = (
    "the proxy must read `hints.forZones` of EndpointSlices where a Service asks for them: is a feature gate off, or a "
    "watch of its own Node missing? One that has no hints says so: `exempt_features: [ZoneHints]`"
)


class Asking:
    """The servers and Services of one check, which its steps share."""

    def __init__(self, cluster: Cluster) -> None:
        """Run a server on each node of `TWO_ZONES`."""
        self._cluster = cluster
        self._a1, self._b1 = cluster.run_servers(on=["a1", "b1"])

    def reaches(self) -> None:
        """Both endpoints of a Service without hints are reached from both nodes."""
        self._plain = self._cluster.create_service()
        self._cluster.publish(self._plain, [placeless(self._a1), placeless(self._b1)])
        both = {self._a1, self._b1}
        expect_traffic(self._cluster, self._plain, {"a1": both, "b1": both})

    def forgets(self) -> None:
        """An endpoint that is removed gets no connection any more."""
        self._cluster.publish(self._plain, [placeless(self._a1)])
        expect_traffic(self._cluster, self._plain, {"a1": {self._a1}, "b1": {self._a1}})

    def follows_hints(self) -> None:
        """Each client reaches the endpoint that is hinted for its zone."""
        self._hinted = self._cluster.create_service(traffic_distribution="PreferClose")
        self._cluster.publish(self._hinted, [same_zone(self._a1), same_zone(self._b1)])
        expect_traffic(self._cluster, self._hinted, {"a1": {self._a1}, "b1": {self._b1}})

    def follows_changed_hints(self) -> None:
        """The same after the hints of a living Service have changed, and nothing else."""
        self._cluster.publish(self._hinted, [endpoint(self._a1, zones=["b"]), endpoint(self._b1, zones=["a"])])
        expect_traffic(self._cluster, self._hinted, {"a1": {self._b1}, "b1": {self._a1}})

    def follows_hints_for_same_zone(self) -> None:
        """The same for a Service with the newer value. Raises `IneligibleError` where the API server has none."""
        try:
            service = self._cluster.create_service(traffic_distribution="PreferSameZone")
        except RefusedError as error:
            raise IneligibleError("the API server has no trafficDistribution: PreferSameZone") from error
        if service.object["spec"].get("trafficDistribution") != "PreferSameZone":
            raise IneligibleError("the API server does not store trafficDistribution: PreferSameZone")
        self._cluster.publish(service, [same_zone(self._a1), same_zone(self._b1)])
        expect_traffic(self._cluster, service, {"a1": {self._a1}, "b1": {self._b1}})


@dataclass(frozen=True, slots=True)
class Step:
    """One question: what holds if it is answered right, what to look at if not, and the step that it builds on.

    `feature` is the one that it is about; who does not claim that is not asked.
    """

    title: str
    ask: Callable[[Asking], None]
    remedy: str
    after: str = ""
    feature: str = ""


REACHED, FOLLOWED = "a Service is reached from pods on both nodes", "hints are followed"

STEPS = (
    Step(
        REACHED,
        Asking.reaches,
        "look at the rules of the nodes in the evidence: is the cluster IP there, with both endpoints? Does the proxy "
        "watch Services and EndpointSlices (not Endpoints), of all names?",
    ),
    Step(
        "an endpoint that is removed is left",
        Asking.forgets,
        "the proxy must work on each new version of an EndpointSlice, and remove what is in it no more",
        after=REACHED,
    ),
    Step(FOLLOWED, Asking.follows_hints, _HINTS, after=REACHED, feature="ZoneHints"),
    Step(
        "hints that change on a living Service are followed",
        Asking.follows_changed_hints,
        "only the hints of the slice have changed: does the proxy compare endpoints without them, and see no change?",
        after=FOLLOWED,
        feature="ZoneHints",
    ),
    Step(
        "hints are followed with trafficDistribution: PreferSameZone",
        Asking.follows_hints_for_same_zone,
        "the proxy may not know this value of the field: hints count, whichever value asks for them",
        after=REACHED,
        feature="ZoneHints",
    ),
)
