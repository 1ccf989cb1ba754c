"""Predict which connections fail once some nodes have a newer service proxy, or one with other settings.

A newer proxy may follow a traffic policy or hints that the present one ignores, and it does so for all Services.
"""

import contextlib
from collections import defaultdict
from collections.abc import Mapping

from explain.causes import SHOWN, listed
from explain.cluster import Cluster, Node, ServiceName
from explain.routes import routes
from reference.proxy.objects import UNREADABLE


def stopping(cluster: Cluster, changed: Mapping[str, Node]) -> str:
    """Return in words which connections work now, but fail if these nodes are `changed`. "" if there are none."""
    key = frozenset(changed.values())
    if key not in cluster.stopping:
        cluster.stopping[key] = _stopping(cluster, changed)
    return cluster.stopping[key]


def _stopping(cluster: Cluster, changed: Mapping[str, Node]) -> str:
    after, lost = cluster.with_nodes(changed), list[str]()
    by_hints = any(each.program.is_other for each in changed.values())
    for name, service in sorted(cluster.services.items()):
        spec = service.get("spec") or {}
        if by_hints or "Local" in {spec.get("internalTrafficPolicy"), spec.get("externalTrafficPolicy")}:
            with contextlib.suppress(*UNREADABLE, AttributeError):  # see `service.of`
                well, then = _working(name, cluster), _working(name, after)
                for label, nodes in sorted(well.items()):
                    if names := sorted(nodes - then[label]):
                        lost.append(f"to {'/'.join(name)} {label} on {listed(names)}")
    more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
    return f"connections that work now then fail: {', '.join(lost[:SHOWN])}{more}" if lost else ""


def _working(name: ServiceName, cluster: Cluster) -> Mapping[str, set[str]]:
    found = defaultdict[str, set[str]](set)
    for each in routes(cluster.services[name], cluster.slices.get(name, ()), cluster):
        found[each.label] |= set() if each.fails else {*each.nodes}
    return found
