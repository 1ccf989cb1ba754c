"""The axes of variation: everything that a requirement's sentence does not mention, with the values to choose from.

A correct implementation behaves the same with every value. The first value of each axis leaves a scenario unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UsageError

NAMES = "names"
SLICES = "slices"
ORDER = "order"
PORTS = "ports"
OWNER = "owner"
CONDITIONS = "conditions"
POLICIES = "policies"
HINTS = "hints"
ENDPOINTS = "endpoints"
ADDRESSES = "addresses"
EXTRAS = "extras"
NEIGHBOURS = "neighbours"
HISTORY = "history"
CLIENT = "client"
FAMILY = "family"
ADDRESS = "address"
PODS = "pods"
TARGETS = "targets"
LABELS = "labels"
PROTOCOL = "protocol"
ARRIVAL = "arrival"
NODES = "nodes"
COMPONENTS = "components"
CONNECTIONS = "connections"
QUERIES = "queries"
BESIDE = "beside"
BYSTANDERS = "bystanders"

Value = tuple[str, str]

AXES: Mapping[str, Mapping[str, str]] = {
    NAMES: {
        "short": "nodes and zones have short names",
        "cloud": "names of nodes and zones are prefixes of each other, differ only in case, have dots or are very long",
    },
    SLICES: {
        "one": "one EndpointSlice holds all endpoints",
        "several": "endpoints are in three EndpointSlices",
        "each": "each endpoint has its own EndpointSlice",
        "overlapping": "two EndpointSlices contain the same endpoint",
        "empty": "the Service also has an EndpointSlice without endpoints",
    },
    ORDER: {"written": "endpoints are in the order of the scenario", "reversed": "endpoints are in reverse order"},
    PORTS: {
        "written": "the Service has the ports of the scenario",
        "more": "the Service has additional ports, one of them with the same number and another protocol",
        "twelve": "the Service has twelve ports",
    },
    OWNER: {
        "suite": "EndpointSlices are managed by the suite",
        "controller": "EndpointSlices carry the managed-by label of the EndpointSlice controller",
        "nobody": "EndpointSlices have no managed-by label",
    },
    CONDITIONS: {
        "written": "endpoints have the conditions of the scenario",
        "all": "ready endpoints also have the conditions serving and terminating",
        "none": "ready endpoints have no conditions, which means that they are ready",
    },
    POLICIES: {
        "unset": "Services have the policies of the scenario",
        "written": "Services also have the default values of policies and affinity",
    },
    HINTS: {
        "written": "endpoints have the hints of the scenario",
        "two": "endpoints with hints also have a hint for a zone or node that does not exist",
        "eight": "endpoints with hints have eight hints, most of them for zones or nodes that do not exist",
    },
    ENDPOINTS: {
        "written": "Services have the endpoints of the scenario",
        "unready": "Services also have four endpoints that are not ready",
        "many": "Services also have 130 endpoints that are not ready",
    },
    ADDRESSES: {
        "one": "endpoints have one address and a nodeName",
        "several": "endpoints have additional addresses, which have no meaning",
        "nowhere": "endpoints have no nodeName, unless the Service has a `Local` policy, trafficDistribution, a "
        "topology annotation or topology keys",
    },
    EXTRAS: {
        "none": "objects have no additional fields",
        "metadata": "objects have additional labels and annotations, and endpoints have a hostname and a targetRef",
        "newer": "EndpointSlices have an owner, an application protocol, and a field of a newer API",
    },
    NEIGHBOURS: {
        "none": "there is no other Service",
        "twin": "another namespace has Services and EndpointSlices of the same names with other endpoints",
        "many": "there are 30 other Services",
        "crowd": "there are 300 other Services",
    },
    HISTORY: {
        "new": "the Service is new",
        "remade": "a Service of the same name with other policies was deleted before",
        "changed": "EndpointSlices had other endpoints before",
        "busy": "an EndpointSlice was changed 200 times before",
    },
    CLIENT: {
        "pod": "clients are pods",
        "node": "clients run on the node, in the host network",
        "endpoint": "clients are endpoints of the Service, on nodes that have any",
    },
    ADDRESS: {
        "cluster-ip": "clients use the cluster IP if the scenario chooses no address",
        "node-port": "clients use the node port of their own node if the scenario chooses no address",
        "external-ip": "clients use an external IP if the scenario chooses no address",
    },
    FAMILY: {"first": "the Service has the cluster's first IP family", "second": "the Service has the second"},
    PODS: {
        "written": "only the pods of the scenario exist",
        "others": "a failed and a completed pod with the same labels exist",
        "reused": "a failed pod with the same labels has the address of a running pod",
        "sidecars": "pods have a sidecar and an init container, whose ports have the same names",
        "host": "one pod on each node runs in the host network",
    },
    TARGETS: {
        "number": "Services have the target ports of the scenario",
        "named": "target ports have a name, and pods have different numbers for it",
        "lacking": "target ports have a name, and pods that are not ready have no such port",
    },
    LABELS: {
        "written": "pods and nodes have the labels of the scenario",
        "empty": "some labels have empty values, on pods, on nodes and in selectors",
        "changed": "labels of pods and nodes had other values before",
        "removed": "the selector matched pods that are not ready, until their labels changed",
    },
    PROTOCOL: {
        "written": "Services have the protocols of the scenario",
        "udp": "Services use UDP if the scenario does not choose a protocol",
    },
    ARRIVAL: {
        "service": "a Service is older than its EndpointSlices",
        "slices": "EndpointSlices are older than their Service",
    },
    NODES: {
        "complete": "nodes have all their labels before the Service exists",
        "late": "nodes of one zone get their zone label after the EndpointSlices exist",
        "remade": "a Node was deleted and created again before the Service existed",
        "bare": "a proxy starts while its Node lacks addresses and podCIDR, which it gets after the EndpointSlices",
    },
    COMPONENTS: {
        "running": "components run without interruption",
        "restarted": "a component was restarted after the first EndpointSlices or pods existed",
        "dns-restarted": "the DNS server was restarted after the first EndpointSlices existed",
        "disconnected": "components were disconnected from the API server during changes",
    },
    CONNECTIONS: {
        "short": "each connection has one request",
        "long": "a client keeps a connection with many requests open",
    },
    QUERIES: {"udp": "DNS queries are sent over UDP", "tcp": "DNS queries are sent over TCP"},
    BESIDE: {
        "nothing": "the Service has the pods and the EndpointSlices of the scenario",
        "pods": "the Service also has pods that are not ready",
        "slices": "the Service also has EndpointSlices that the controller does not manage",
        "deleted": "another client deletes the controller's EndpointSlices, and changes the labels of the Service",
    },
    BYSTANDERS: {
        "none": "there are no additional nodes",
        "control-plane": "control plane nodes exist, some without a zone or CPU",
        "unready": "nodes exist whose readiness is False or Unknown, some without a zone or CPU",
    },
}
"""The axes by name, in a fixed order. Each value maps to a text that completes "fails when …" in reports."""


def plain(axis: str) -> str:
    return next(iter(AXES[axis]))


@dataclass(frozen=True, slots=True)
class DrawnValues:
    """The random value of each axis. Axes with their first value, the plain value, are omitted."""

    values: tuple[tuple[str, str], ...] = ()

    def __getitem__(self, axis: str) -> str:
        return dict(self.values).get(axis, plain(axis))

    def __str__(self) -> str:
        """Return the string that `parse_draw` reads: "names=cloud,slices=each", or "plain"."""
        return ",".join(f"{axis}={value}" for axis, value in self.values) or "plain"

    def without(self, *axes: str) -> "DrawnValues":
        """Return this draw without the values on these axes, or without these values ("client=endpoint")."""
        return DrawnValues(tuple(each for each in self.values if not {each[0], "=".join(each)} & set(axes)))

    @property
    def meanings(self) -> list[str]:
        """Return the meanings of the random values, as completions of "fails when …"."""
        return [AXES[axis][value] for axis, value in self.values]


PLAIN = DrawnValues()

SHARES: Mapping[Value, float] = {
    (SLICES, "each"): 0.3,
    (PORTS, "twelve"): 0.3,
    (ENDPOINTS, "many"): 0.3,
    (NEIGHBOURS, "crowd"): 0.1,
    (HISTORY, "busy"): 0.1,
    (NODES, "bare"): 0.5,
}
"""The relative frequency of each expensive value on its axis (1 for other values). All pairs of values still occur."""

_MOST: Mapping[Value, int] = {
    (SLICES, "each"): 2,
    (SLICES, "several"): 8,
    (SLICES, "overlapping"): 8,
    (SLICES, "empty"): 8,
    (PORTS, "more"): 4,
    (PORTS, "twelve"): 1,
    (ENDPOINTS, "many"): 1,
    (ENDPOINTS, "unready"): 8,
    (NEIGHBOURS, "twin"): 8,
    (ADDRESS, "external-ip"): 8,
    (HISTORY, "remade"): 8,
    (HISTORY, "changed"): 8,
    (HISTORY, "busy"): 1,
}
"""The maximum number of a scenario's Services or slices with this value. More would need too many requests or rules."""


def within_limits(draw: DrawnValues, number: int) -> DrawnValues:
    """Return the draw for Service or slice `number` (from 1) of a scenario, without values that exceed their limit."""
    return draw.without(*(axis for axis, value in draw.values if _MOST.get((axis, value), number) < number))


def draw_of(values: Mapping[str, str]) -> DrawnValues:
    return DrawnValues(tuple((axis, values[axis]) for axis in AXES if values.get(axis, plain(axis)) != plain(axis)))


def parse_draw(text: str) -> DrawnValues:
    """Parse "names=cloud,slices=each" or "plain". Raises `UsageError` with the known axes or values."""
    found: dict[str, str] = {}
    for part in [] if text == "plain" else text.split(","):
        name, _, value = part.strip().partition("=")
        if name not in AXES:
            raise UsageError(f"draw {text[:200]!r}: unknown axis {name[:50]!r}; expected plain or {', '.join(AXES)}")
        if value not in AXES[name]:
            known = ", ".join(AXES[name])
            raise UsageError(f"draw {text[:200]!r}: axis {name} has no value {value[:50]!r}; expected {known}")
        found[name] = value
    return draw_of(found)


def when_it_fails(fails_with: str) -> str:
    """Return a sentence with the random values that a failure needs, or "" if it needs none."""
    draw = parse_draw(fails_with or "plain")
    return f"Fails only when {', and '.join(draw.meanings)} ({draw})." if draw.values else ""
