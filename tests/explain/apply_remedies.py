"""Apply the remedies of an answer to the objects of the cluster, as printed, and as an API server accepts them.

The API server is the reference in this process. After each command, the reference controller writes hints. Commands
that only show something change nothing, and a placeholder is replaced with the value that a user would take.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from explain.case import slice_port
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from explain.objects import Objects
from explain.what_if import supposed, with_hints
from harness.api.client import Object
from harness.model.manifests import takes_pods
from reference.apiserver import ApiServer
from reference.apiserver.patches import JSON, STRATEGIC
from reference.endpointslice.endpoints import is_ready as is_pod_ready
from reference.endpointslice.labels import CONTROLLER, MANAGED_BY, SERVICE_NAME, is_managed, node_zone
from reference.features import Features
from reference.objects.endpoints import is_ready, name_of
from tests.explain.workload_kinds import KINDS, with_disruptions_allowed
from tests.reference.api_server_calls import listed, patched

_RESOURCES = {each.resource.singular: each.resource.plural for each in KINDS} | {
    each: f"{each}s" for each in ("service", "node", "pod", "endpointslice", "namespace")
}
_SHOWS = {"get", "describe", "logs"}
_ON_PODS = re.compile(r"^run (\d+) pods of a Deployment$|: topologySpreadConstraints: \[")
_REPLACE = re.compile(
    r".* \| jq 'del\(\.spec\.clusterIP, \.spec\.clusterIPs\)(?: \| \.spec \+= (.*))?' \| kubectl replace --force -f -"
)


class AppliedCluster:
    """A cluster whose objects an API server stores. Raises `ApiError` if the API server refuses an object."""

    def __init__(self, seen: Objects) -> None:
        self.seen = seen
        self.api = ApiServer(Features(follows="released"), service_cidrs=("10.96.0.0/16", "fd00:96::/112"))
        for kind in KINDS:
            self.api.add_kind(kind)
        spaces = {each["metadata"]["name"]: each for each in seen.further.get("namespaces", ())}
        for name in {each["metadata"]["namespace"] for each in (*seen.services, *seen.pods)} - {"default"} | {*spaces}:
            if name != "kube-system":
                self.api.create("namespaces", "", spaces.get(name, {"metadata": {"name": name}}))
        pods = [_whole(each) for each in seen.pods if each["metadata"]["namespace"] != "kube-system"]
        slices = [_alone(each, number, seen) for number, each in enumerate(seen.endpointslices)]
        further = [(name, objects) for name, objects in seen.further.items() if name != "namespaces"]
        for resource, objects in (("nodes", seen.nodes), ("services", seen.services), ("pods", pods), *further):
            for each in objects:
                self._create(resource, each)
        for each in slices:
            self._create("endpointslices", each)

    def _create(self, resource: str, obj: Object) -> None:
        namespace, spec = obj["metadata"].get("namespace", ""), obj.get("spec") or {}
        if spec.get("type") == "ExternalName":
            obj = {**obj, "spec": {key: each for key, each in spec.items() if key not in {*_ADDRESSES, "ipFamilies"}}}
        made = self.api.create(resource, namespace, obj)
        if "status" in obj and resource != "services" and self.api.registry.strategy(resource).resource.has_status:
            self.api.update_status(resource, namespace, {**made, "status": obj["status"]})

    @property
    def name(self) -> tuple[str, str]:
        metadata = self.seen.services[0]["metadata"]
        return metadata["namespace"], metadata["name"]

    @property
    def objects(self) -> Objects:
        """The objects now, before the controller has processed the changes."""
        kept = {each: listed(self.api, each) for each in ("services", "endpointslices", "nodes")}
        services = [each for each in kept["services"] if each["metadata"]["name"] == self.name[1]]
        pods = listed(self.api, "pods") if "pods" not in self.seen.unread else ()
        further = {name: listed(self.api, name) for name in self.seen.further}
        changed = {**kept, "services": services, "pods": pods, "further": further}
        return replace(self.seen, **changed)  # type: ignore[arg-type]

    def apply(self, commands: Sequence[str]) -> bool:
        """Run commands. Return whether one of them changes something."""
        changed = [self._run(each) for each in commands]
        return any(changed)

    def settled(self) -> Cluster:
        """Return the cluster after the controllers have processed the changes."""
        now = with_hints(Cluster(replace(self.objects, events=()), "released"), self.name)
        ready = {name_of(each) for one in now.endpointslices for each in one["endpoints"] if is_ready(each)}
        of = "poddisruptionbudgets"
        allowed = [with_disruptions_allowed(each, len(ready)) for each in now.further.get(of, ())]
        return Cluster(replace(now, further={**now.further, of: allowed}), "released")

    def _run(self, command: str) -> bool:
        if replaced := _REPLACE.fullmatch(command):
            service = dict(self.api.get("services", *self.name))
            kept = {key: each for key, each in service["spec"].items() if key not in _ADDRESSES}
            service["spec"] = kept | json.loads(replaced[1] or "{}")
            self.api.delete("services", *self.name)
            self._create("services", {**service, "metadata": _without_place(service["metadata"])})
            return True
        if words := _ON_PODS.search(command):
            self._scale(int(words[1])) if words[1] else self._restart()
            return True
        words = shlex.split(command)[1:]
        namespace = words[1] if words[0] == "-n" else ""
        verb, *rest = words[2:] if namespace else words
        if verb in _SHOWS:
            return False
        match verb:
            case "scale":
                self._scale(int(rest[-1].partition("=")[2]))
            case "uncordon":
                for each in rest:
                    patched(self.api, "nodes", "", each, {"spec": {"unschedulable": None}})
            case "rollout":
                self._restart()
            case "label" if rest[0] == "node":
                self._label(rest[1:-1], rest[-1])
            case _:
                place, *more = [each for each in rest if each != "--overwrite"]
                resource, _, name = place.partition("/")
                name, *more = [name, *more] if name else more
                self._change(verb, _RESOURCES[resource], namespace, name, more)
        return True

    def _change(self, verb: str, resource: str, namespace: str, name: str, more: list[str]) -> None:
        match verb, more:
            case "patch", ["--type=json", "-p", patch]:
                patched(self.api, resource, namespace, name, json.loads(patch), content_type=JSON)
            case "patch", ["-p", patch]:
                value = json.loads(patch.replace('"KEY":"VALUE"', '"app":"web"'))
                made = patched(self.api, resource, namespace, name, value, content_type=STRATEGIC)
                if resource == "horizontalpodautoscalers":
                    self._scale(made["spec"]["minReplicas"])
            case "annotate" | "label", [change]:
                key, _, value = change.removesuffix("-").partition("=")
                field = "labels" if verb == "label" else "annotations"
                new = None if change.endswith("-") else value
                patched(self.api, resource, namespace, name, {"metadata": {field: {key: new}}})
                if key == "trafficdist.dev/touched":
                    self._sync()
            case "delete", [] if resource == "pods":
                self._drop_endpoint(name)
            case _:
                raise AssertionError(f"{verb} {resource} {name} {more}: a remedy should not do this")

    def _sync(self) -> None:
        """Let the controller write its slices: with the endpoints that it has, and all pods that are in no slice.

        Each endpoint gets all ports. Pods that were not read keep their endpoints.
        """
        service, nodes = (
            self.api.get("services", *self.name),
            {each["metadata"]["name"]: each for each in listed(self.api, "nodes")},
        )
        wanted = (service["spec"].get("selector") or {}).items()
        slices = listed(self.api, "endpointslices")
        known = {name_of(each) for one in slices for each in one["endpoints"] or ()}
        pods = [each for each in listed(self.api, "pods") if wanted and wanted <= each["metadata"]["labels"].items()]
        pods = [each for each in pods if is_pod_ready(each) and each["metadata"]["name"] not in known]
        own = [one for one in slices if is_managed(one)]
        if not wanted or not (own or pods):
            return
        for one in own:
            self.api.delete("endpointslices", one["metadata"]["namespace"], one["metadata"]["name"])
        ports = [slice_port(each) for each in service["spec"]["ports"]]
        for family in service["spec"]["ipFamilies"]:
            kept = [each for one in own if one["addressType"] == family for each in one["endpoints"] or ()]
            once = {each["addresses"][0]: each for each in kept}
            new = [_endpoint(each, number, family, nodes) for number, each in enumerate(pods)]
            labels = {SERVICE_NAME: self.name[1], MANAGED_BY: CONTROLLER}
            metadata = {"name": f"of-web-{family.lower()}", "namespace": self.name[0], "labels": labels}
            endpoints = [*once.values(), *new]
            made = {"metadata": metadata, "addressType": family, "ports": ports, "endpoints": endpoints}
            self._create("endpointslices", made)

    def _label(self, names: Sequence[str], change: str) -> None:
        """Label nodes, by their names or the label that they have. The placeholder is the first letter of the name."""
        if names[0] == "-l":
            key, _, wanted = names[1].partition(",")[0].partition("=")
            nodes = listed(self.api, "nodes")
            names = [each["metadata"]["name"] for each in nodes if each["metadata"]["labels"].get(key) == wanted]
        key, _, value = change.partition("=")
        for each in names:
            patched(self.api, "nodes", "", each, {"metadata": {"labels": {key: value.replace("ZONE", each[0])}}})

    def _drop_endpoint(self, pod: str) -> None:
        for one in listed(self.api, "endpointslices"):
            kept = [each for each in one["endpoints"] if (each.get("targetRef") or {}).get("name") != pod]
            self.api.update("endpointslices", one["metadata"]["namespace"], {**one, "endpoints": kept})

    def _scale(self, number: int) -> None:
        scaled = supposed([f"scale={number}"], self.name, Cluster(self.objects, "released")).objects
        for one in listed(self.api, "endpointslices"):
            self.api.delete("endpointslices", one["metadata"]["namespace"], one["metadata"]["name"])
        for one in scaled.endpointslices:
            self._create("endpointslices", {**one, "metadata": _without_place(one["metadata"])})

    def _restart(self) -> None:
        """Start all pods anew, as their constraint wants: in each zone, on nodes that take pods."""
        zones = {each["metadata"]["name"]: node_zone(each) for each in listed(self.api, "nodes") if takes_pods(each)}
        number, there = 0, set[str]()
        for one in listed(self.api, "endpointslices"):
            for each in one["endpoints"]:
                others = [name for name, zone in zones.items() if zone == each.get("zone")]
                if others and each.get("nodeName") not in zones:
                    each["nodeName"] = others[0]
                there.add(str(each.get("zone")))
                number += 1
            self.api.update("endpointslices", one["metadata"]["namespace"], one)
        if {*zones.values()} - there:
            self._scale(1)
            self._scale(number)


_ADDRESSES = {"clusterIP", "clusterIPs"}


def _endpoint(pod: Object, number: int, family: str, nodes: dict[str, Object]) -> Object:
    """Return the endpoint of a pod that has no address in the objects."""
    name, on = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
    zone = node_zone(nodes[on]) if on in nodes else ""
    address = f"10.244.200.{number + 1}" if family == "IPv4" else f"fd00:200::{number + 1}"
    place = {"nodeName": on} | ({"zone": zone} if zone else {})
    pod_of = {"kind": "Pod", "name": name, "namespace": pod["metadata"]["namespace"]}
    return {"addresses": [address], "conditions": {"ready": True}, "targetRef": pod_of, **place}


def _without_place(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if key in metadata}


def _whole(pod: Object) -> Object:
    """Return a pod with the fields that an API server requires."""
    return {
        **pod,
        "spec": {**pod["spec"], "containers": pod["spec"].get("containers") or [{"name": "c", "image": "i"}]},
    }


def _alone(endpoint_slice: Object, number: int, seen: Objects) -> Object:
    """Return a slice under a name that no other slice has."""
    metadata = endpoint_slice["metadata"]
    taken = [each["metadata"]["name"] for each in seen.endpointslices[:number]]
    name = f"{metadata['name']}-{number}" if metadata["name"] in taken else metadata["name"]
    return {**endpoint_slice, "metadata": {**metadata, "name": name}}


def alternatives(remedy: str) -> list[list[str]]:
    """Return the commands of each alternative of a remedy, and its sentences that run or spread pods."""
    found = []
    for one in re.split(r"; or,? |, or ", remedy):
        parts = [re.sub("^(otherwise|and,|then,|if [^,]*,) ", "", each) for each in one.split("; ")]
        found.append([each for each in parts if each.startswith("kubectl ") or _ON_PODS.search(each)])
    return found


def now(cluster: Cluster) -> Diagnosis:
    return diagnose(cluster.objects.services[0], cluster)


def working(found: Diagnosis) -> set[tuple[str, str]]:
    """Return the nodes and ports whose connections do not fail."""
    return {(name, each.label) for each in found.routes for name in each.nodes if not each.fails}


def _inside(label: str) -> str:
    """Return the label of the routes that external clients share with others under policy Cluster."""
    return label.removesuffix(" external")


def harm(seen: Objects) -> list[str]:
    """Return what is wrong after the remedies of an answer: each alone, and all of them in order."""
    before, wrong = now(Cluster(AppliedCluster(seen).objects, "released")), []
    together = AppliedCluster(seen)
    applied = []
    for each in before.findings:
        for commands in alternatives(each.remedy):
            alone = AppliedCluster(seen)
            if not alone.apply(commands):
                continue
            after = now(alone.settled())
            if each.cause.id not in applied:
                applied.append(each.cause.id)
                together.apply(commands)
            if any(one.cause.id == each.cause.id and set(one.nodes) >= set(each.nodes) for one in after.findings):
                wrong.append(f"{each.cause.id} is still there after: {commands}")
            well = working(after)
            if lost := {(name, label) for name, label in working(before) - well if (name, _inside(label)) not in well}:
                wrong.append(f"{sorted(lost)} fail after: {commands}")
    left = now(together.settled()).findings  # the first of several alternatives may help some nodes only
    whole = [each for each in before.findings if each.cause.id in applied]
    kept = {one.cause.id for one in left for each in whole
            if one.cause.id == each.cause.id and {*one.nodes} >= {*each.nodes}}  # fmt: skip
    return wrong + [f"{each} is there again after the other remedies" for each in kept if len(applied) > 1]
