"""Compare the routes of all Services in two clusters: two dumps, or a cluster before and after a change.

The comparison covers the proximity of endpoints, and not their addresses, which change with each rollout.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explain.causes import listed
from explain.cluster import Cluster, ServiceName
from explain.diagnosis import diagnose
from explain.text import answer
from reference.proxy.objects import UNREADABLE


@dataclass(frozen=True, slots=True)
class RouteDifference:
    """A Service whose routes differ between two clusters. `before` and `after` are the first lines of `explain`.

    `failing` is true if connections fail in the second cluster. `example` compares the routes of one node.
    """

    service: str
    nodes: tuple[str, ...]
    before: str
    after: str
    failing: bool = False
    example: str = ""

    @property
    def lines(self) -> Iterator[str]:
        yield f"{self.service}: {listed(self.nodes) or 'all nodes'}"
        yield f"  before    {self.before}"
        yield f"  after     {self.after}"
        if self.example and self.before == self.after:
            yield f"  example   {self.example}"


def differences(before: Cluster, after: Cluster, namespace: str = "") -> list[RouteDifference]:
    """Return the Services that exist in only one cluster, or whose routes differ on a node of both clusters."""
    names = sorted(each for each in before.services.keys() | after.services.keys() if namespace in {"", each[0]})
    found = []
    for name in names:
        (was, said), (now, says) = _explained(before, name), _explained(after, name)
        nodes = tuple(node for node in sorted(was.keys() & now.keys()) if was[node] != now[node])
        if nodes or (said != says and not (was and now)):
            failing = any("fails" in each for routes in now.values() for each in routes.values())
            example = _example(nodes[0], was[nodes[0]], now[nodes[0]]) if nodes else ""
            found.append(RouteDifference("/".join(name), nodes, said, says, failing, example))
    return found


def _example(node: str, was: "Mapping[str, Place]", now: "Mapping[str, Place]") -> str:
    label = next(each for each in sorted(was.keys() | now.keys()) if was.get(each) != now.get(each))
    far = ", with endpoints of other zones"
    used = [f"{one[0]}{far * one[1]}" if one else "no such port" for one in (was.get(label), now.get(label))]
    return f"{node} {label} used {used[0]}, and uses {used[1]}"


Place = tuple[str, bool, str]
"""The tier of a route, whether it leaves the zone, and its shortfall."""

_Places = Mapping[str, Mapping[str, Place]]


def _explained(cluster: Cluster, name: ServiceName) -> tuple[_Places, str]:
    try:
        found = diagnose(cluster.services[name], cluster) if name in cluster.services else None
    except (*UNREADABLE, AttributeError) as error:
        return {}, f"its objects cannot be read: {error!r}"
    places: dict[str, dict[str, Place]] = {}
    for each in found.routes if found else ():
        for node in each.nodes:
            places.setdefault(node, {})[each.label] = (each.tier, bool(each.crossing), each.short)
    return places, answer(found) if found else "there is no such Service"
