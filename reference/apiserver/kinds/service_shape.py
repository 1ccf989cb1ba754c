"""The fields of a Service; `versioned_fields` has those that not every release has."""

from __future__ import annotations

from reference.apiserver.kinds.conditions import CONDITION
from reference.apiserver.kinds.shapes import (
    ANY,
    BOOLEAN,
    INT_OR_STRING,
    INTEGER,
    OTHERS,
    STRING,
    STRING_MAP,
    Shape,
    of_object,
)

_PORT: Shape = {
    "name": STRING,
    "protocol": STRING,
    "appProtocol": STRING,
    "port": INTEGER,
    "targetPort": INT_OR_STRING,
    "nodePort": INTEGER,
}

_SPEC: Shape = {
    "type": STRING,
    "selector": STRING_MAP,
    "ports": [_PORT],
    "clusterIP": STRING,
    "clusterIPs": [STRING],
    "ipFamilies": [STRING],
    "ipFamilyPolicy": STRING,
    "externalIPs": [STRING],
    "externalName": STRING,
    "externalTrafficPolicy": STRING,
    "internalTrafficPolicy": STRING,
    "healthCheckNodePort": INTEGER,
    "loadBalancerIP": STRING,
    "loadBalancerClass": STRING,
    "loadBalancerSourceRanges": [STRING],
    "allocateLoadBalancerNodePorts": BOOLEAN,
    "publishNotReadyAddresses": BOOLEAN,
    "sessionAffinity": STRING,
    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": INTEGER}},
    "topologyKeys": [STRING],
    "trafficDistribution": STRING,
}

_STATUS: Shape = {
    "loadBalancer": {"ingress": [{"ip": STRING, "hostname": STRING, "ipMode": STRING, OTHERS: ANY}]},
    "conditions": [CONDITION],
}

SERVICE: Shape = of_object(spec=_SPEC, status=_STATUS)
