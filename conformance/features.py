"""The features of implementations, by profile. Core features are mandatory. Extended features are optional.

The KEPs leave some behaviour to implementations. If an implementation claims a feature for such behaviour, the
requirements of the feature are MUSTs (`must_if`).
"""

from __future__ import annotations

from trafficdist import (
    Feature,
    Profile,
)

_PROXY = Profile.SERVICE_PROXY
_CONTROLLER = Profile.ENDPOINTSLICE_CONTROLLER
_API = Profile.API_SERVER
_CLUSTER = Profile.CLUSTER
_DNS = Profile.DNS

# service-proxy
CLUSTER_IP = Feature("ClusterIP", _PROXY, True, "Connections to a cluster IP reach a ready endpoint of the Service.")
ZONE_HINTS = Feature("ZoneHints", _PROXY, True, "Hints for zones (forZones) decide which endpoints a node uses.")
NODE_HINTS = Feature("NodeHints", _PROXY, False, "Hints for nodes (forNodes) decide which endpoints a node uses.")
INTERNAL_POLICY = Feature("InternalTrafficPolicy", _PROXY, True, "internalTrafficPolicy: Local stays on the node.")
EXTERNAL_POLICY = Feature("ExternalTrafficPolicy", _PROXY, True, "externalTrafficPolicy: Local stays on the node.")
TERMINATING_ENDPOINTS = Feature(
    "TerminatingEndpoints", _PROXY, True, "The proxy uses serving endpoints that terminate while no endpoint is ready."
)
UDP_SERVICES = Feature("UDP", _PROXY, True, "The proxy serves UDP, without stale flows after a change.")
IPV6_SERVICES = Feature("IPv6", _PROXY, False, "The proxy serves IPv6 addresses and dual-stack Services.")
NODE_PORT = Feature("NodePort", _PROXY, True, "The proxy serves Services of type NodePort.")
LOAD_BALANCER = Feature("LoadBalancer", _PROXY, False, "The node itself serves load balancer addresses.")
EXTERNAL_IPS = Feature("ExternalIPs", _PROXY, False, "The proxy serves spec.externalIPs.")
GRADED_ZONES = Feature(
    "GradedZones",
    _PROXY,
    False,
    "Under load, traffic may leave the hinted zone; this feature relaxes the zone tests.",
)
SESSION_AFFINITY = Feature("SessionAffinity", _PROXY, False, "sessionAffinity: ClientIP keeps a client's endpoint.")
PROXY_METRICS = Feature("ProxyMetrics", _PROXY, False, "The proxy exposes metrics under kube-proxy's names.")
PROXY_HEALTH = Feature("ProxyHealth", _PROXY, False, "Each node answers /healthz and /livez on port 10256.")
HEALTH_CHECK_NODE_PORT = Feature(
    "HealthCheckNodePort", _PROXY, False, "Each node answers on the health check node ports of Services."
)
CLIENT_ADDRESS = Feature(
    "ClientAddress", _PROXY, False, "With externalTrafficPolicy: Local, servers see the addresses of clients outside."
)
LOSSLESS_CHANGES = Feature(
    "LosslessChanges",
    _PROXY,
    False,
    "No connection or query is lost while the endpoints and hints of a Service change.",
)
UDP_FLOWS = Feature(
    "UDPFlows",
    _PROXY,
    False,
    "UDP flows leave an endpoint that is removed, and end with the Service or its last endpoint.",
)
NODE_NAMES = Feature(
    "NodeNames", _PROXY, False, "An endpoint is local to a node exactly while its slice names that node."
)
SLICE_LABELS = Feature(
    "SliceLabels", _PROXY, False, "A slice counts for the Service that its label names now, and for no other."
)
OPEN_CONNECTIONS = Feature(
    "OpenConnections",
    _PROXY,
    False,
    "Open connections keep their endpoint when hints and conditions change, and when the proxy restarts.",
)
EVEN_SHARES = Feature("EvenShares", _PROXY, False, "All endpoints that a client may use get equal shares.")
DROP_OR_REJECT = Feature(
    "DropOrReject",
    _PROXY,
    False,
    "Packets are dropped if only a policy excludes all endpoints, and rejected otherwise.",
)
HINTS_ON_ANY_SERVICE = Feature(
    "HintsOnAnyService", _PROXY, False, "Hints count whatever trafficDistribution and annotations a Service has."
)
SERVICE_PROXY_NAME = Feature(
    "ServiceProxyName", _PROXY, False, "Services with the label service-proxy-name are left to another proxy."
)
IP_MODE = Feature("LoadBalancerIPMode", _PROXY, False, "ipMode decides who serves a load balancer address inside.")
SOURCE_RANGES = Feature(
    "LoadBalancerSourceRanges", _PROXY, False, "loadBalancerSourceRanges restrict clients at load balancer addresses."
)
HAIRPIN = Feature("Hairpin", _PROXY, False, "A pod reaches itself through its Service.")
IPV6_NODE_PORTS = Feature("IPv6NodePorts", _PROXY, False, "Node ports are served in both IP families.")
AFFINITY_RENEWAL = Feature("AffinityRenewal", _PROXY, False, "Each connection renews a client's affinity.")
NODE_LEVEL_TOPOLOGY = Feature(
    "NodeLevelTopology", _PROXY, False, "The proxy follows node-level hints behind the gate of KEP-3015 of 2022."
)
TOPOLOGY_KEYS = Feature(
    "TopologyKeys",
    _PROXY,
    False,
    "The topologyKeys of a Service decide which endpoints a node uses (gate ServiceTopology).",
)
LOCATED_ENDPOINTS = Feature(
    "LocatedEndpoints",
    _PROXY,
    False,
    "PodLocators tell the proxy where endpoints are, for topologyKeys (gates ServiceTopology and PodLocator).",
)

# endpointslice-controller
ENDPOINT_SLICES = Feature("EndpointSlices", _CONTROLLER, True, "Pods and Services become EndpointSlices.")
PREFER_CLOSE = Feature("PreferClose", _CONTROLLER, True, "trafficDistribution: PreferClose becomes hints for zones.")
PREFER_SAME_ZONE = Feature(
    "PreferSameZone", _CONTROLLER, True, "trafficDistribution: PreferSameZone becomes hints for zones."
)
PREFER_SAME_NODE = Feature(
    "PreferSameNode", _CONTROLLER, True, "trafficDistribution: PreferSameNode becomes hints for nodes and zones."
)
TOPOLOGY_MODE = Feature(
    "TopologyMode", _CONTROLLER, False, "Annotation topology-mode: Auto allocates endpoints to zones by their CPU."
)
TOPOLOGY_EVENTS = Feature(
    "TopologyModeEvents", _CONTROLLER, False, "Events report hints added or withheld for annotation topology-mode."
)
DUAL_STACK_SLICES = Feature("DualStack", _CONTROLLER, False, "A dual-stack Service has slices of both families.")
CONTROLLER_METRICS = Feature(
    "ControllerMetrics", _CONTROLLER, False, "The controller exposes metrics under Kubernetes' names."
)
SYNC_EVENTS = Feature("SyncEvents", _CONTROLLER, False, "A failed sync is an Event on the Service.")
MINIMAL_API_CALLS = Feature(
    "MinimalAPICalls",
    _CONTROLLER,
    False,
    "Slices are written only if they change, once for each change, and hints need no reads of their own.",
)
ENDPOINT_LOCATIONS = Feature(
    "EndpointLocations", _CONTROLLER, False, "Endpoints have the name of their node and its zone."
)
CONDITIONS = Feature(
    "TrafficDistributionConditions", _CONTROLLER, False, "Conditions of a Service report the state of its value."
)
NODE_LEVEL_MANUAL = Feature(
    "NodeLevelTopologyManual", _CONTROLLER, False, "Services whose topology annotation is Node get node hints."
)
NODE_LEVEL_AUTOMATIC = Feature(
    "NodeLevelTopologyAutomatic", _CONTROLLER, False, "Suitable Services get node hints without an annotation."
)
NODE_LEVEL_OPT_IN = Feature(
    "NodeLevelTopologyOptIn", _CONTROLLER, False, "Suitable Services with the topology annotation get node hints."
)
NODE_LEVEL_OPT_OUT = Feature(
    "NodeLevelTopologyOptOut",
    _CONTROLLER,
    False,
    "Suitable Services get node hints unless they have the topology annotation.",
)
NODE_LEVEL_BY_NODES = Feature(
    "NodeLevelTopologyByNodes", _CONTROLLER, False, "A Service with an endpoint on nearly every node is suitable."
)
NODE_LEVEL_BY_DAEMON_SET = Feature(
    "NodeLevelTopologyByDaemonSet", _CONTROLLER, False, "A Service whose pods belong to one DaemonSet is suitable."
)

# api-server
TRAFFIC_DISTRIBUTION_FIELD = Feature(
    "TrafficDistributionField", _API, True, "Services store and validate trafficDistribution."
)
HINTS_FIELD = Feature("HintsField", _API, True, "EndpointSlices store and validate hints for zones.")
PREFER_SAME_VALUES = Feature(
    "PreferSameValues", _API, True, "trafficDistribution may be PreferSameZone and PreferSameNode."
)
NODE_HINTS_FIELD = Feature("NodeHintsField", _API, True, "EndpointSlices store and validate hints for nodes.")
TRAFFIC_POLICY_FIELDS = Feature(
    "TrafficPolicyFields", _API, True, "Services store, default and validate the traffic policies."
)
DOMAIN_VALUES = Feature("DomainValues", _API, False, "Services store trafficDistribution values with a domain prefix.")
DEPRECATION_WARNINGS = Feature("DeprecationWarnings", _API, False, "Responses warn of deprecated values.")
TOPOLOGY_KEYS_FIELD = Feature(
    "TopologyKeysField", _API, False, "Services store and validate topologyKeys (gate ServiceTopology)."
)
NODE_PORT_ALLOCATION = Feature(
    "NodePortAllocation", _API, False, "Node ports are given as Services name them, and others outside a reserved band."
)
OPENAPI = Feature("OpenAPI", _API, False, "The API server publishes OpenAPI documents of its resources.")
NODE_LEVEL_FIELD = Feature(
    "NodeLevelTopologyHints", _API, False, "EndpointSlices store node hints behind the gate of KEP-3015 of 2022."
)

# features of any component: it can run as another release, or with other feature gates
PROXY_RELEASES = Feature(
    "ProxyReleases", _PROXY, False, "The proxy can be run as an older Kubernetes release, and with gates switched."
)
CONTROLLER_RELEASES = Feature(
    "ControllerReleases",
    _CONTROLLER,
    False,
    "The controller can be run as an older Kubernetes release, and with gates switched.",
)
API_SERVER_RELEASES = Feature(
    "APIServerReleases",
    _API,
    False,
    "The API server can be run as an older Kubernetes release, with its stored objects.",
)

# cluster
ROUTING = Feature("TrafficDistributionRouting", _CLUSTER, True, "Packets follow the preference of a Service.")
PREFER_SAME_ROUTING = Feature(
    "PreferSameRouting", _CLUSTER, True, "Packets follow the values PreferSameZone and PreferSameNode of a Service."
)
HONORED = Feature(
    "HonoredCondition", _CLUSTER, False, "A condition of a Service reports whether every node follows its hints."
)
DOMAIN_HEURISTICS = Feature(
    "DomainHeuristics", _CLUSTER, False, "Services can request heuristics with a domain prefix, which are applied."
)
SAMPLE_HEURISTIC = Feature(
    "PreferNextZone",
    _CLUSTER,
    False,
    "trafficdist.dev/PreferNextZone: a zone without endpoints uses those of one other zone.",
)
TOPOLOGY_ROUTING = Feature(
    "TopologyModeRouting", _CLUSTER, False, "Hints by the CPU of zones are written and followed."
)
NODE_LEVEL_ROUTING = Feature(
    "NodeLevelTopologyRouting", _CLUSTER, False, "Packets follow node-level topology of KEP-3015 of 2022."
)
TOPOLOGY_KEYS_ROUTING = Feature("TopologyKeysRouting", _CLUSTER, False, "Packets follow the topologyKeys of a Service.")
SKEW = Feature(
    "VersionSkew", _CLUSTER, False, "API server, controller and proxies of different releases work together."
)
ROLLOUT = Feature(
    "Rollout", _CLUSTER, False, "Components are upgraded, downgraded and upgraded again under traffic, without a loss."
)
OUTAGE = Feature(
    "Outage",
    _CLUSTER,
    False,
    "The API server, the controller, proxies or nodes fail and recover, without a loss that can be avoided.",
)

# dns
POD_LOCATORS = Feature(
    "PodLocators", _DNS, False, "PodLocators have the location of each pod, and are kept up to date."
)
SERVICE_DNS = Feature("ServiceDNS", _DNS, True, "Services and headless Services have names, ports and addresses.")
TOPOLOGY_AWARE_DNS = Feature(
    "TopologyAwareDNS", _DNS, False, "topologyKeys of a headless Service select the endpoints in DNS answers."
)
