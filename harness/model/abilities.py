"""What a backend may be able to do beside making objects, running pods and asking Services from pods and nodes.

The embedded cluster can do all of it. What a foreign cluster cannot, or must not be asked to, leaves the requirements
that need it unjudged: `unavailable`, by the name that stands here.
"""

from __future__ import annotations

import enum


class Ability(enum.StrEnum):
    """One thing that scenarios may need of a backend. The values stand in reports and in `trafficdist doctor`."""

    RESTART_API_SERVER = "restart-api-server"
    RESTART_CONTROLLER = "restart-controller"
    RESTART_PROXY = "restart-proxy"
    CHANGE_RELEASE = "change-release"  # start a component again as one of another version, or with other feature gates
    CHANGE_NODES = "change-nodes"  # their labels and taints, and cordon them
    REPORT_NODES = "report-nodes"  # what kubelets report of them: CPU, readiness
    STOP_NODES = "stop-nodes"  # switch one off, as a power failure would, and on again
    CREATE_NODES = "create-nodes"  # nodes that exist in the API only
    EQUAL_NODES = "equal-nodes"  # no nodes but those of the topology, with the CPU that it says
    REPORT_PODS = "report-pods"  # pods that exist in the API only, in any phase
    EXTERNAL_CLIENT = "external-client"  # packets from outside of the cluster
    LOAD_BALANCER = "load-balancer"  # load balancer addresses that are routed to a node of choice
    EXTERNAL_IPS = "external-ips"  # the same for spec.externalIPs
    OPEN_CONNECTIONS = "open-connections"  # connections that stay, and are asked again
    SOURCE_PORTS = "source-ports"  # sockets and programs in a client's network namespace
    EVERY_REFUSAL = "every-refusal"  # kernels limit ICMP errors, to one a second: silence may be a refusal
    HTTP = "http"  # GET requests from where a client is, to any address
    CONTROLLER_METRICS = "controller-metrics"
    PROXY_METRICS = "proxy-metrics"
    UNDISTURBED = "undisturbed"  # nobody else's load, where a scenario must keep time
    DNS = "dns"  # the topology-aware DNS server, and PodLocators


EVERYTHING = frozenset(Ability)
