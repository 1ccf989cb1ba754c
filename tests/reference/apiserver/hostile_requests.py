"""Generate malformed requests.

The requests use every verb, and valid objects of each kind with unusual values in random places.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

METADATA: dict[str, Any] = {
    "labels": {"a": "b"},
    "annotations": {"x": "y"},
    "finalizers": ["example.com/f"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
    "managedFields": [
        {
            "manager": "m",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2020-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:x": {}}},
        }
    ],
}
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Because",
    "message": "m",
    "lastTransitionTime": "2020-01-01T00:00:00Z",
}
SERVICE: dict[str, Any] = {
    "spec": {
        "type": "LoadBalancer",
        "ports": [
            {"name": "a", "port": 80, "targetPort": 8080, "protocol": "TCP", "nodePort": 30080, "appProtocol": "http"},
            {"name": "b", "port": 81, "targetPort": "web"},
        ],
        "selector": {"a": "b"},
        "clusterIP": "10.96.0.77",
        "clusterIPs": ["10.96.0.77"],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "externalIPs": ["192.0.2.4"],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
        "externalTrafficPolicy": "Local",
        "internalTrafficPolicy": "Cluster",
        "healthCheckNodePort": 32000,
        "loadBalancerSourceRanges": ["192.0.2.0/24"],
        "trafficDistribution": "PreferClose",
        "topologyKeys": ["*"],
    },
    "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.4", "ipMode": "VIP"}]}, "conditions": [CONDITION]},
}
SLICE: dict[str, Any] = {
    "addressType": "IPv4",
    "endpoints": [
        {
            "addresses": ["10.0.0.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "hints": {"forZones": [{"name": "a"}], "forNodes": [{"name": "n"}]},
            "nodeName": "n",
            "zone": "a",
            "hostname": "h",
            "targetRef": {"kind": "Pod", "name": "p"},
            "deprecatedTopology": {"a": "b"},
        }
    ],
    "ports": [{"name": "a", "port": 80, "protocol": "TCP", "appProtocol": "x"}],
}
NODE: dict[str, Any] = {
    "spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": False},
    "status": {
        "allocatable": {"cpu": "4"},
        "capacity": {"cpu": "4"},
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
        "conditions": [CONDITION],
        "nodeInfo": {"kubeletVersion": "v1.37.0"},
    },
}
POD: dict[str, Any] = {
    "spec": {
        "nodeName": "n",
        "restartPolicy": "Always",
        "containers": [
            {
                "name": "c",
                "image": "i",
                "args": ["x"],
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
                "volumeMounts": [{"name": "v", "mountPath": "/x"}],
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "a"}],
    },
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [CONDITION],
        "containerStatuses": [{"name": "c", "ready": True, "restartCount": 1, "state": {"running": {}}}],
    },
}
EVENT: dict[str, Any] = {
    "involvedObject": {"kind": "Service", "name": "x", "namespace": "default"},
    "reason": "r",
    "message": "m",
    "type": "Normal",
    "count": 1,
    "firstTimestamp": "2020-01-01T00:00:00Z",
    "lastTimestamp": "2020-01-01T00:00:00Z",
    "source": {"component": "c"},
    "series": {"count": 1, "lastObservedTime": "2020-01-01T00:00:00Z"},
}
LEASE: dict[str, Any] = {
    "spec": {"holderIdentity": "x", "leaseDurationSeconds": 10, "renewTime": "2020-01-01T00:00:00.000000Z"}
}
SERVICE_CIDR: dict[str, Any] = {"spec": {"cidrs": ["10.200.0.0/16"]}, "status": {"conditions": [CONDITION]}}
SOUND: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/services": {"apiVersion": "v1", "kind": "Service", **SERVICE},
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        **SLICE,
    },
    "/api/v1/nodes": {"apiVersion": "v1", "kind": "Node", **NODE},
    "/api/v1/namespaces/default/pods": {"apiVersion": "v1", "kind": "Pod", **POD},
    "/api/v1/namespaces": {"apiVersion": "v1", "kind": "Namespace", "spec": {}, "status": {"phase": "Active"}},
    "/api/v1/namespaces/default/events": {"apiVersion": "v1", "kind": "Event", **EVENT},
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        **LEASE,
    },
    "/api/v1/namespaces/default/configmaps": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}},
    "/apis/networking.k8s.io/v1/servicecidrs": {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        **SERVICE_CIDR,
    },
}
"""A valid object of each kind, by the path of its collection."""

ODD = st.sampled_from(
    [
        None, True, False, 0, -1, 5, 2**31, 2**63, 2**64, 1e308, -0.5, "", "x", "\x00", "a" * 300, "1e99999999", "-5",
        "None", "::1", "10.96.0.1", "127.0.0.1", "999.1.1.1", "1Mi", "9999-99-99T00:00:00Z", [], [[]], ["x"], [None],
        [1], [{}], {}, {"a": None}, {"": ""}, {"x": {"y": []}}, {"$patch": "delete"}, {"$patch": {}},
        {"$retainKeys": 5}, {"$setElementOrder/ports": 5}, {"$deleteFromPrimitiveList/finalizers": 5},
    ]
)  # fmt: skip
NAMES = st.sampled_from(["x", "", "$patch", "$retainKeys", "$setElementOrder/ports", "status", "spec", "metadata"])
WAYS = ("POST", "PUT", "application/merge-patch+json", "application/strategic-merge-patch+json",
        "application/apply-patch+yaml", "application/json-patch+json", "DELETE")  # fmt: skip

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class HostileRequest:
    """A request. `content_type` is the media type of a patch."""

    method: str
    path: str
    body: bytes
    content_type: str = "application/json"
    query: dict[str, str] = field(default_factory=dict)


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each nested value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*path, key)
        yield from paths(each, (*path, key))


def _at(value: Any, path: Path) -> Any:
    for each in path:
        value = value[each]
    return value


@st.composite
def odd_objects(draw: st.DrawFn, collection: str) -> Any:
    """Return a valid object with up to three values replaced, removed or added."""
    metadata = {"name": draw(st.sampled_from(["one", "two"])), **METADATA}
    made = json.loads(json.dumps({**SOUND[collection], "metadata": metadata}))
    if draw(st.booleans()):
        del made["metadata"]["managedFields"], made["metadata"]["finalizers"]
    for _ in range(draw(st.integers(0, 3))):
        places = list(paths(made))
        if not places:
            break
        *before, last = draw(st.sampled_from(places))
        holder = _at(made, tuple(before))
        match draw(st.sampled_from(["replace", "replace", "take out", "add"])):
            case "replace":
                holder[last] = json.loads(json.dumps(draw(ODD)))
            case "take out":
                del holder[last]
            case "add" if isinstance(holder, dict):
                holder[draw(NAMES)] = json.loads(json.dumps(draw(ODD)))
    return made


@st.composite
def json_patches(draw: st.DrawFn, collection: str) -> Any:
    """Return a JSON patch that writes unusual values to existing paths of a valid object."""
    places = ["/" + "/".join(map(str, each)) for each in paths({**SOUND[collection], "metadata": METADATA})]
    operation = st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "replace", "remove", "test", "copy", "move", "bad"]),
            "path": st.sampled_from(places),
            "from": st.sampled_from(places),
            "value": ODD,
        }
    )
    return draw(st.lists(operation, min_size=1, max_size=3) | ODD)


@st.composite
def requests(draw: st.DrawFn) -> HostileRequest:
    """Return a request for one of two objects of a random kind."""
    collection = draw(st.sampled_from(sorted(SOUND)))
    way, status = draw(st.sampled_from(WAYS)), draw(st.sampled_from(["", "", "/status"]))
    one = f"{collection}/{draw(st.sampled_from(['one', 'two']))}"
    value = draw(json_patches(collection) if "json-patch" in way else odd_objects(collection) | ODD)
    body = json.dumps(value).encode()
    query = draw(st.sampled_from([{}, {}, {"dryRun": "All"}, {"fieldManager": "x", "force": "true"}]))
    match way:
        case "POST":
            return HostileRequest("POST", collection, body, query=query)
        case "PUT":
            return HostileRequest("PUT", one + status, body, query=query)
        case "DELETE":
            return HostileRequest("DELETE", one, draw(st.sampled_from([b"", body])), query=query)
    return HostileRequest("PATCH", one + status, body, way, {"fieldManager": "z", **query})
