"""One answer of explain, with facts about its Service that come from the objects alone."""

from __future__ import annotations

from dataclasses import dataclass

from explain.diagnosis import Diagnosis
from explain.objects import Objects
from explain.overview import ServiceRow
from harness.api.client import Object
from tests.explain.cluster_builders import ZONE


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
        """The workload that owns a pod: the Deployment of a ReplicaSet, by the hash of the pod or by its name."""
        for each in pod["metadata"].get("ownerReferences", ()):
            kind, name, (start, _, suffix) = each["kind"], each["name"], each["name"].rpartition("-")
            deployments = {one["metadata"]["name"] for one in self.objects.further.get("deployments", ())}
            of = suffix == pod["metadata"]["labels"].get("pod-template-hash") or start in deployments
            return f"deployment/{start}" if kind == "ReplicaSet" and of else f"{kind.lower()}/{name}"
        return f"pod/{pod['metadata']['name']}"

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
