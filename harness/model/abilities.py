"""Abilities that some backends lack. A requirement that needs a missing ability is skipped as `unavailable`."""

import enum


class Ability(enum.StrEnum):
    """An ability that scenarios may need. Reports and `trafficdist doctor` show its value."""

    RESTART_API_SERVER = "restart-api-server"
    RESTART_CONTROLLER = "restart-controller"
    RESTART_PROXY = "restart-proxy"
    CHANGE_RELEASE = "change-release"  # restart a component as another version, or with other feature gates
    CHANGE_NODES = "change-nodes"  # change labels and taints, and cordon nodes
    REPORT_NODES = "report-nodes"  # report CPU and readiness, as kubelets do
    STOP_NODES = "stop-nodes"  # power nodes off, as in a power failure, and on again
    CREATE_NODES = "create-nodes"  # create nodes that exist in the API only
    EQUAL_NODES = "equal-nodes"  # no other nodes than those of the topology, with its CPU
    REPORT_PODS = "report-pods"  # create pods that exist in the API only, in any phase
    EXTERNAL_CLIENT = "external-client"  # packets from a client that is not in the cluster
    LOAD_BALANCER = "load-balancer"  # load balancer addresses that are routed to a chosen node
    EXTERNAL_IPS = "external-ips"  # addresses in spec.externalIPs that are routed to a chosen node
    OPEN_CONNECTIONS = "open-connections"  # long-lived connections with several requests
    SOURCE_PORTS = "source-ports"  # sockets and programs in a client's network namespace
    OTHER_PROGRAMS = "other-programs"  # programs beside the proxy that add and take nftables tables on a node
    EVERY_REFUSAL = "every-refusal"  # no ICMP rate limit; by default, Linux sends one error per second
    HTTP = "http"  # GET requests from a client, to any address
    CONTROLLER_METRICS = "controller-metrics"
    PROXY_METRICS = "proxy-metrics"
    API_READS = "api-reads"  # a record of the reads of each component from the API server
    UNDISTURBED = "undisturbed"  # no other load, for scenarios that depend on time
    MANY_PORTS = "many-ports"  # servers with a hundred ports, without a container for each
    HOST_NETWORK = "host-network"  # servers on the addresses of nodes
    DNS = "dns"  # the topology-aware DNS server, PodLocators, and restarts of their controller


EVERYTHING = frozenset(Ability)
