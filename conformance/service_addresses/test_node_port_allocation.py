"""Allocation of node ports by the API server."""

from __future__ import annotations

from conformance.features import NODE_PORT_ALLOCATION
from conformance.kep_4444_traffic_distribution.test_validation import create_service, expect_accepted, expect_refused
from trafficdist import MUST, Cluster, IneligibleError, Port, Response, manifests, path_of, requirement

FIRST, LAST = 30000, 32767
"""The default range of node ports."""

BAND = range(FIRST, FIRST + 86)
"""The ports that are reserved for explicit requests: min(max(16, 2768 / 32), 128) in a range of 2768 ports."""

MANY = 100
"""The number of ports of one Service. 300 random node ports all miss the reserved band in 1 of 10,000 runs."""


@requirement(
    "SERVICE/api-allocates-node-ports-outside-of-the-band",
    "An API server with the default range of node ports allocates ports from 30086 to 32767 while any of them is free, "
    "and leaves ports 30000 to 30085 to Services that request them by number.",
    level=MUST,
    features={NODE_PORT_ALLOCATION},
    source="core/v1 ServicePort.nodePort (usually assigned by the system); KEP-3668, Proposal",
    kills={"allocates-in-the-band-of-node-ports", "band-of-sixteen-node-ports", "closes-the-band-of-node-ports"},
)
def test_node_ports_are_allocated_outside_of_the_band(three_zones: Cluster) -> None:
    for number in (BAND[0], BAND[len(BAND) // 2], BAND[-1]):
        expect_accepted(three_zones, f"node port {number}", _create(three_zones, f"named-{number}", number))
    for number in range(3):
        ports = [Port(1 + index, name=f"p{index}") for index in range(MANY)]
        local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
        answer = create_service(three_zones, f"any-{number}", ports=ports, **local)
        expect_accepted(three_zones, f"a Service with {MANY} node ports and one for health checks", answer)
        spec = answer.body["spec"]
        given = {*(each["nodePort"] for each in spec["ports"]), spec["healthCheckNodePort"]}
        three_zones.expect_equal(
            f"node ports of service any-{number} below {BAND.stop}", expected=[], observed=sorted(given & {*BAND})
        )


@requirement(
    "SERVICE/api-gives-the-node-port-that-is-named",
    "A Service gets the node port that it requests if the port is in range and free, including a port that another "
    "Service released; otherwise the API server rejects the Service with an error that names the field.",
    level=MUST,
    features={NODE_PORT_ALLOCATION},
    source="core/v1 ServicePort.nodePort (in-range and not in use: it will be used, otherwise the operation will fail)",
    kills={"closes-the-band-of-node-ports", "gives-node-ports-twice", "gives-node-ports-of-any-number"},
)
def test_named_node_ports_are_given_once(three_zones: Cluster) -> None:
    field = "spec.ports[0].nodePort"
    for number in (BAND[1], BAND.stop + 1, LAST):
        expect_accepted(three_zones, f"node port {number}", _create(three_zones, f"first-{number}", number))
        second = _create(three_zones, f"second-{number}", number)
        expect_refused(three_zones, f"node port {number} of another Service", second, field)
        three_zones.api.delete("services", three_zones.namespace, f"first-{number}")
        expect_accepted(three_zones, f"free node port {number}", _create(three_zones, f"third-{number}", number))
    for number in (FIRST - 1, LAST + 1):
        expect_refused(three_zones, f"node port {number}", _create(three_zones, f"beyond-{number}", number), field)


def _create(cluster: Cluster, name: str, node_port: int) -> Response:
    """Create a Service with this node port. Raises `IneligibleError` if the cluster has another range of node ports."""
    body = manifests.service(name, type="NodePort")
    body["spec"]["ports"][0]["nodePort"] = node_port
    answer = cluster.api.request("POST", path_of("services", cluster.namespace), body)
    if FIRST <= node_port <= LAST and "not in the valid range" in str(answer.body.get("message", "")):
        raise IneligibleError(f"node ports of this cluster are not {FIRST}-{LAST}: {node_port} is refused")
    return answer
