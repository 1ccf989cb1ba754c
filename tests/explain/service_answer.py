"""One answer of explain, with facts about its Service that come from the objects alone."""

from __future__ import annotations

from dataclasses import dataclass

from explain.diagnosis import Diagnosis
from explain.objects import Objects
from explain.overview import ServiceRow
from harness.api.client import Object
from tests.explain.cluster_builders import REQUIRED, ZONE


def is_ready(endpoint: Object) -> bool:
    """Return whether an endpoint is ready, as discovery/v1 defines it: without the condition, it is."""
    return bool(endpoint["conditions"].get("ready", True))


@dataclass(frozen=True)
class ServiceAnswer:
    """An answer about one Service, its row of `--all`, and the objects that it is about."""

    found: Diagnosis
    says: str
    row: ServiceRow | None
    service: Object
    slices: list[Object]
    objects: Objects

    @property
    def endpoints(self) -> list[Object]:
        return [each for one in self.slices for each in one["endpoints"]]

    @property
    def all_pods(self) -> list[Object]:
        """The pods that the selector matches."""
        wanted = (self.service["spec"].get("selector") or {}).items()
        return [each for each in self.objects.pods if wanted and wanted <= each["metadata"]["labels"].items()]

    @property
    def pods(self) -> list[Object]:
        """The ready pods that the selector matches and that do not terminate."""
        return [
            each
            for each in self.all_pods
            if "deletionTimestamp" not in each["metadata"]
            and any(one == {"type": "Ready", "status": "True"} for one in each["status"]["conditions"])
        ]

    @property
    def pods_read(self) -> set[str]:
        """The names of all pods that were read, but for those of the system."""
        return {each["metadata"]["name"] for each in self.objects.pods if each["metadata"]["namespace"] == "shop"}

    def port(self, name: str) -> Object:
        """Return the name and the protocol of a port like "web/TCP", as slices have them."""
        short, _, protocol = name.partition("/")
        return {"name": short, "protocol": protocol}

    @property
    def labels(self) -> set[str]:
        """The ports and IP families of the Service."""
        spec = self.service["spec"]
        ports = [f"{each.get('name') or each['port']}/{each['protocol']}" for each in spec["ports"]]
        return {f"{port} {family}" for port in ports for family in spec["ipFamilies"]}

    @property
    def old(self) -> set[str]:
        """The nodes with kube-proxy 1.22, the only release before 1.24 that the generators draw."""
        return {each["spec"]["nodeName"] for each in self.objects.proxies if "v1.22" in str(each["spec"]["containers"])}

    def owner(self, pod: Object) -> str:
        """The workload that owns a pod: the owner of a ReplicaSet by its object, or else by the Deployments.

        If no Deployment has the name of a ReplicaSet with the hash of the pod, its owner has another kind.
        """
        further = self.objects.further
        for each in pod["metadata"].get("ownerReferences", ()):
            kind, name, (start, _, suffix) = each["kind"], each["name"], each["name"].rpartition("-")
            for one in further.get("replicasets", ()) if kind == "ReplicaSet" else ():
                if one["metadata"]["name"] == name:
                    by = one["metadata"]["ownerReferences"][0]
                    return f"{by['kind'].lower()}/{by['name']}"
            deployments = {one["metadata"]["name"] for one in further.get("deployments", ())}
            has_hash = suffix == pod["metadata"]["labels"].get("pod-template-hash")
            if kind == "ReplicaSet" and has_hash and (start in deployments or "deployments" not in further):
                return f"deployment/{start}"
            unknown = kind == "ReplicaSet" and has_hash
            return f"the owner of replicaset/{name}" if unknown else f"{kind.lower()}/{name}"
        return f"pod/{pod['metadata']['name']}"

    def workload(self, name: str) -> Object:
        """The object of a workload like "deployment/web", or {} if it was not read."""
        kind, _, short = name.partition("/")
        known = self.objects.further.get(f"{kind}s", ())
        return next((each for each in known if each["metadata"]["name"] == short), {})

    def takes_pods(self, node: Object) -> bool:
        """Whether new pods of some workload of the Service, other than a DaemonSet, may start on a node."""
        moving = [each for each in self.all_pods if not self.owner(each).startswith("daemonset/")]
        first = {self.owner(each): each for each in reversed(moving) if not self.owner(each).startswith("pod/")}
        specs = [each["spec"] for each in first.values()] or [each["spec"] for each in self.all_pods[:1]] or [{}]
        return any(_takes(each, node) for each in specs)

    @property
    def closed_zones(self) -> set[str]:
        """The zones with nodes of which none takes new pods."""
        zones = {self.zone(each["metadata"]["name"]) for each in self.objects.nodes}
        return zones - {self.zone(each["metadata"]["name"]) for each in self.objects.nodes if self.takes_pods(each)}

    @property
    def serving_zones(self) -> set[str]:
        """The zones with a ready endpoint in the first IP family, by the nodes of the endpoints."""
        first = min((one["addressType"] for one in self.slices), default="")
        mine = [each for one in self.slices if one["addressType"] == first for each in one["endpoints"]]
        return {self.zone(each["nodeName"]) for each in mine if is_ready(each)} - {""}

    def of_port(self, port: Object, family: str) -> list[Object]:
        """The endpoints that slices have for a port, by its name and protocol, in an IP family."""
        wanted = (port["name"], port["protocol"])
        mine = [one for one in self.slices if one["addressType"] == family]
        having = [one for one in mine if wanted in {(each["name"], each["protocol"]) for each in one["ports"]}]
        return [each for one in having for each in one["endpoints"]]

    def zone_of(self, endpoint: Object) -> str:
        return self.zone(endpoint["nodeName"]) or str(endpoint.get("zone", ""))

    def zone(self, node: str) -> str:
        labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in self.objects.nodes}
        return str(labels.get(node, {}).get(ZONE, ""))


def _takes(spec: Object, node: Object) -> bool:
    """Return whether a pod may start on a node, by the fields that the generators draw."""
    labels, on = node["metadata"]["labels"], node.get("spec") or {}
    tolerated = {each["key"] for each in spec.get("tolerations", ())}
    repels = {each["key"] for each in on.get("taints", ()) if each["effect"] in {"NoSchedule", "NoExecute"}}
    affinity = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    zones = affinity["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] if affinity else [labels.get(ZONE)]
    return (
        not on.get("unschedulable")
        and node["status"]["conditions"][0]["status"] == "True"
        and repels <= tolerated
        and spec.get("nodeSelector", {}).items() <= labels.items()
        and labels.get(ZONE) in zones
    )
