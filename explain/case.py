"""One Service of a cluster, with the data that is needed to find causes, and the commands that change the Service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explain.cluster import Cluster
from harness.api.client import Object
from reference.endpointslice.hints import Mechanism, mechanism
from reference.endpointslice.labels import ZONE, is_headless
from reference.objects.endpoints import name_of

PROXY_NAME = "service.kubernetes.io/service-proxy-name"


class Case:
    def __init__(self, service: Object, slices: Sequence[Object], cluster: Cluster) -> None:
        self.service, self.slices, self.cluster = service, slices, cluster
        self.spec = service["spec"]
        self.namespace, self.name = service["metadata"]["namespace"], service["metadata"]["name"]
        self.decided_by: Mechanism = mechanism(service, cluster.features)
        self.events = tuple(cluster.events(service))
        self.pods = cluster.pods(service)

    @property
    def ends(self) -> str:
        """The reason why kube-proxy does not route the Service, or "" if kube-proxy routes it."""
        if self.spec.get("type") == "ExternalName":
            return "external-name"
        if is_headless(self.service):
            return "headless"
        return "other-proxy" if PROXY_NAME in (self.service["metadata"].get("labels") or {}) else ""

    @property
    def families(self) -> list[str]:
        return sorted({each["addressType"] for each in self.slices})

    def endpoints(self, family: str) -> list[tuple[Object, Object]]:
        """Return the endpoints of an IP family, each with its EndpointSlice."""
        mine = (one for one in self.slices if one["addressType"] == family)
        return [(each, one) for one in mine for each in one.get("endpoints") or ()]

    def kubectl(self, words: str) -> str:
        """Return a kubectl command about the Service."""
        verb, _, rest = words.partition(" ")
        return f"kubectl -n {self.namespace} {verb} service {self.name} {rest}".rstrip()

    def set_field(self, value: str = "") -> str:
        """Return the command that sets trafficDistribution. By default, the value for the same zone in this release."""
        value = value or (
            "PreferSameZone" if self.cluster.features.enabled("PreferSameTrafficDistribution") else "PreferClose"
        )
        return self.kubectl(f'patch -p \'{{"spec":{{"trafficDistribution":"{value}"}}}}\'')

    def scale(self, replicas: int) -> str:
        return f"kubectl -n {self.namespace} scale {self.workload or 'deployment/NAME'} --replicas={replicas}"

    def of_pod(self, verb: str, name: str) -> str:
        """Return a kubectl command about a pod of the Service, such as "describe" or "delete"."""
        return f"kubectl -n {self.namespace} {verb} pod {name}"

    @property
    def touch(self) -> str:
        """Return the command that makes the controller sync the Service again."""
        return self.kubectl('annotate trafficdist.dev/touched="$(date +%s)" --overwrite')

    @property
    def log(self) -> str:
        """Return the command that shows the lines about the Service in the controller's log."""
        pods = "-l component=kube-controller-manager --tail=-1"
        return f"kubectl -n kube-system logs {pods} | grep {self.namespace}/{self.name}; if it is not running, start it"

    @property
    def evidence(self) -> tuple[str, ...]:
        """Return Events, conditions, the controller's Lease, and the last time when the controller wrote the slices."""
        return tuple(filter(None, (*self.events, *self._conditions, self.cluster.controller(), self._written)))

    @property
    def _conditions(self) -> Iterator[str]:
        """Yield the topology conditions of the Service whose status is not True."""
        for each in (self.service.get("status") or {}).get("conditions") or ():
            if "Distribution" in str(each.get("type")) and each.get("status") != "True":
                yield f"condition {each['type']} is {each.get('status')}: {each.get('message', '')}"

    @property
    def _written(self) -> str:
        """Return the last time when the controller wrote the slices, according to managedFields, or "" if unknown."""
        fields = [each for one in self.slices for each in one["metadata"].get("managedFields") or ()]
        last: Object = max(fields, key=lambda each: str(each.get("time", "")), default={})
        return f"slices last written by {last.get('manager', '?')} at {last['time']}" if last.get("time") else ""

    @property
    def workload(self) -> str:
        """Return the workload that owns the pods, for example "deployment/web", or "" if it is unknown."""
        for pod in self.pods or ():
            for owner in pod["metadata"].get("ownerReferences") or ():
                kind, name = str(owner.get("kind", "")), str(owner.get("name", ""))
                template = (pod["metadata"].get("labels") or {}).get("pod-template-hash", "")
                if kind == "ReplicaSet" and template and name.endswith(f"-{template}"):
                    return f"deployment/{name.removesuffix(f'-{template}')}"
                return f"{kind.lower()}/{name}"
        return ""


def condition(endpoint: Object, name: str, *, default: bool = False) -> bool:
    """Return a condition of an endpoint, or `default` if it is unset."""
    value = (endpoint.get("conditions") or {}).get(name)
    return default if value is None else bool(value)


def first_name(endpoints: Sequence[Object]) -> str:
    return min(map(name_of, endpoints))


def label(node: str) -> str:
    """Return the command that sets a node's zone label."""
    return f"kubectl label node {node} {ZONE}=ZONE"
