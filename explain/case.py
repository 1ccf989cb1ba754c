"""Data about one Service that shows why connections leave their zone, and commands that change the Service."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from explain.causes import SHOWN, Finding, Prediction, listed, many, texts
from explain.cluster import Cluster
from explain.objects import offers
from explain.programs import UPGRADES
from explain.requested_topology import AUTO, KEYS, OFF, wish_of
from explain.routes import Route, stopping
from explain.workloads import Workloads, managers
from harness.api.client import Object
from reference.endpointslice.endpoints import is_ready as is_pod_ready
from reference.endpointslice.hints import Mechanism, mechanism, topology_annotation
from reference.endpointslice.labels import MANAGED_BY, SERVICE_NAME, ZONE, is_headless, is_managed
from reference.features import Features, Version
from reference.objects.endpoints import is_ready, name_of
from reference.proxy.decision import Behaviour

_BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_VALUES = {"PreferClose", "PreferSameZone", "PreferSameNode"}
PROXY_NAME = "service.kubernetes.io/service-proxy-name"


@dataclass(frozen=True)
class ServicePorts:
    """The ports of a Service, in one IP family, whose endpoints are in the same EndpointSlices."""

    family: str
    ports: tuple[Object, ...]
    slices: tuple[Object, ...]
    routes: tuple[Route, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.label for each in self.routes))

    @cached_property
    def endpoints(self) -> list[tuple[Object, Object]]:
        return endpoints_of(self.slices)

    @cached_property
    def ready(self) -> list[tuple[Object, Object]]:
        return [(each, one) for each, one in self.endpoints if is_ready(each)]


class Case:
    """A Service with its slices, its `endpoints` (each with its slice), and the topology that it requests (`wish`).

    `by_hand` is true if no controller writes hints, because the Service has no selector. `is_external` is true if it
    has addresses for external clients.
    """

    def __init__(self, service: Object, slices: Sequence[Object], cluster: Cluster) -> None:
        self.service, self.slices, self.cluster = service, slices, cluster
        self.wish = wish_of(service, cluster.features)
        self.spec = service["spec"]
        self.namespace, self.name = service["metadata"]["namespace"], service["metadata"]["name"]
        self.decided_by: Mechanism = mechanism(service, cluster.features)
        self.annotation = topology_annotation(service, cluster.features)
        self.annotated = self.annotation[1] in AUTO
        self.events = tuple(cluster.events(service))
        self.endpoints = endpoints_of(slices)
        self._managed_fields = [each for one in slices for each in one["metadata"].get("managedFields") or ()]
        self.pods = cluster.pods(service)
        self._effects = dict(texts("effects"))
        self.by_hand = not self.spec.get("selector") and not self.ends
        self.is_of_server = (self.namespace, self.name) == ("default", "kubernetes")
        self.is_external = self.spec.get("type") in {"NodePort", "LoadBalancer"} or bool(self.spec.get("externalIPs"))
        self.has_tcp = any((each.get("protocol") or "TCP") == "TCP" for each in self.spec.get("ports") or ())

    def is_own(self, endpoint_slice: Object) -> bool:
        """Return whether the controller writes the hints in a slice: never for a Service without a selector."""
        return not self.by_hand and is_managed(endpoint_slice)

    @cached_property
    def selects_pods(self) -> bool:
        """True if there is a selector, unless the selector matches no pod and another client writes the endpoints."""
        written = any(is_managed(one) for _, one in self.endpoints) or not self.endpoints
        return bool(self.spec.get("selector")) and (written or self.pods != [])

    @cached_property
    def ready_pods(self) -> list[Object]:
        """The ready pods that the selector matches, except terminating pods."""
        return [each for each in self.pods or () if is_pod_ready(each) and "deletionTimestamp" not in each["metadata"]]

    @cached_property
    def unlisted(self) -> dict[str, str]:
        """Maps ready pods that could be endpoints of some port, but are in no EndpointSlice, to their nodes."""
        return self.unlisted_at(self.spec.get("ports") or ())

    def unlisted_at(self, ports: Sequence[Object]) -> dict[str, str]:
        """Return the items of `unlisted` whose pods could be endpoints of some of these ports."""
        known = {name_of(each) for each, _ in self.endpoints}
        if not all(each.get("targetRef") for each, _ in self.endpoints):
            return {}  # the pods of these endpoints are unknown
        able = [each for each in self.ready_pods if any(offers(each, port) for port in ports)]
        names = {str(each["metadata"]["name"]): str(each["spec"].get("nodeName", "")) for each in able}
        return {name: node for name, node in names.items() if name not in known}

    @cached_property
    def unread(self) -> set[str]:
        """The names of pods that endpoints refer to, but that were not read. These pods may not exist."""
        named = {name_of(each) for each, _ in self.endpoints if (each.get("targetRef") or {}).get("kind") == "Pod"}
        return named - self.cluster.names_of_pods(self.namespace) if self.cluster.objects.pods else set()

    @cached_property
    def workloads(self) -> Workloads:
        names = {name_of(each) for each, _ in self.endpoints}
        selector: dict[str, str] = self.spec.get("selector") or {}
        return Workloads(self.namespace, selector, self.pods or (), names, self.unread, self.cluster, self._does)

    @property
    def ends(self) -> str:
        """The id of the cause that keeps kube-proxy from routing the Service, or "" if kube-proxy routes it."""
        if self.spec.get("type") == "ExternalName":
            return "external-name"
        if is_headless(self.service):
            return "headless"
        return "other-proxy" if PROXY_NAME in (self.service["metadata"].get("labels") or {}) else ""

    @property
    def families(self) -> list[str]:
        return sorted({each["addressType"] for each in self.slices})

    def questions(self, by_proxies: Sequence[Route]) -> list[ServicePorts]:
        """Return the ports and families of the Service, grouped by their slices."""
        ports = {port_name(each): each for each in self.spec.get("ports") or ()}
        used = {one["addressType"] for _, one in self.endpoints}
        groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
        for port, family in dict.fromkeys((each.port, each.family) for each in by_proxies):
            there = enumerate(self.slices if family in used else ())
            numbers = (n for n, one in there if one["addressType"] == family and has_port(one, ports[port]))
            groups.setdefault((family, tuple(numbers)), []).append(port)
        made = []
        for (of_family, mine), names in groups.items():
            routes = tuple(each for each in by_proxies if each.family == of_family and each.port in names)
            chosen, slices = tuple(ports[each] for each in names), tuple(self.slices[number] for number in mine)
            made.append(ServicePorts(of_family, chosen, slices, routes))
        return made

    def kubectl(self, words: str) -> str:
        verb, _, rest = words.partition(" ")
        return f"kubectl -n {self.namespace} {verb} service {self.name} {rest}".rstrip()

    def patch(self, spec: Object) -> str:
        """Return the command that patches fields of the Service's spec."""
        return self.workloads.patch(f"service {self.name}", spec, self._given_up(spec))

    def _does(self, command: str, *effects: str) -> str:
        if effect := "; ".join(filter(None, effects)):
            self._effects[command] = effect
        return command

    def _given_up(self, spec: Object) -> str:
        field = self.spec.get("trafficDistribution")
        new = spec.get("trafficDistribution", field)
        if new and not field and self.wish != "cpu":
            return "a zone with few endpoints may then have many clients"
        if new == field or {field, new} <= {"PreferClose", "PreferSameZone"} or field not in _VALUES:
            return ""
        if new is None:
            return f"the Service then no longer asks for {field}"
        lost = ": connections then prefer the zone, and no longer the node of the client"
        return f"{new} replaces {field}{lost if field == 'PreferSameNode' else ''}"

    def also(self, finding: Finding) -> Finding:
        """Return a copy of a finding whose `also` includes the side effects of the commands in its fix."""
        remedy = finding.remedy or finding.cause.remedy
        parts = sorted((part for part in self._effects if part in remedy), key=remedy.index)
        effects = [finding.also, *(self._effects[part] for part in parts)]
        for one, names in self.cluster.others.items():
            new = one.after(remedy)
            effects += [stopping(self.cluster, names, new)] if new != one else []
        if re.search(rf"(patch|annotate|label) service {self.name} (?!trafficdist)", remedy):
            effects.append(managers(self.service))
        return replace(finding, also="; ".join(dict.fromkeys(filter(None, effects))))

    def again(self, spec: Object) -> str:
        """Return the command that deletes the Service, and recreates it with these fields and a new cluster IP."""
        change = f" | .spec += {json.dumps(spec, separators=(',', ':'))}" if spec else ""
        new = f"jq 'del(.spec.clusterIP, .spec.clusterIPs){change}'"
        return f"{self.kubectl('get -o json')} | {new} | kubectl replace --force -f -"

    def describe(self, endpoints: Sequence[Object]) -> str:
        """Return commands that show why endpoints are unready. Ignore terminating endpoints unless all terminate."""
        stay = [each for each in endpoints if not condition(each, "terminating")]
        targets = {name_of(each): (each.get("targetRef") or {}).get("kind") for each in stay or endpoints}
        look, pods = f"kubectl -n {self.namespace} describe pod", {name for name in targets if targets[name] == "Pod"}
        said = [f"{look} {' '.join(known[:SHOWN])}"] if (known := sorted(pods - self.unread)) else []
        if lost := sorted(pods & self.unread):
            exists = f"if {many(lost, 'pod', 'exists/exist')} (not read)"
            said.append(f"{exists}, {look} {' '.join(lost[:SHOWN])}; otherwise {self.show_writers}")
        return "; ".join(said) or f"find out why the writer of the slices marks {listed([*targets])} as not ready"

    def mend_on(self, nodes: Sequence[str], routes: Sequence[Route]) -> list[str]:
        """Return the commands that show why pods on these nodes are not ready endpoints of these routes."""
        questions = self.questions(routes)
        ill = [each for one in questions for each, _ in one.endpoints if not is_ready(each)]
        stay = [each for each in ill if each.get("nodeName") in nodes and not condition(each, "terminating")]
        look = [self.describe(stay)] if stay else []
        return look + [self.sync] * any({*nodes} & {*self.unlisted_at(one.ports).values()} for one in questions)

    def patch_slice(self, name: str, changes: Sequence[Object]) -> str:
        patch = json.dumps(changes, separators=(",", ":"))
        command = f"kubectl -n {self.namespace} patch endpointslice {name} --type=json -p '{patch}'"
        labels = {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in self.slices}[name]
        rewrites = "the program that writes the slices may write them again without this change"
        return self._does(command, rewrites if labels.get(MANAGED_BY) else "")

    def ask(self, value: str = "") -> str:
        """Return the command that makes the Service request its clients' zone, or this value of trafficDistribution."""
        features = self.cluster.features
        if not value and not features.enabled("ServiceTrafficDistribution"):
            return self.kubectl(f"annotate {KEYS[not features.at_least(27)]}=Auto --overwrite")
        return self.patch({"trafficDistribution": value or self._zone_value}) + ("" if value else self.switch_on)

    @property
    def _zone_value(self) -> str:
        """The trafficDistribution value for zones: the newest that the controller and all service proxies support."""
        same = self.cluster.features.enabled("PreferSameTrafficDistribution") and self.cluster.knows("PreferSameZone")
        return "PreferSameZone" if same else "PreferClose"

    @property
    def switch_on(self) -> str:
        """The settings with which proxies other than kube-proxy use hints, as text to append to a command."""
        settings = sorted({each.switch_on for each in self.cluster.others} - {""})
        return "".join(f"; then {each}" for each in settings)

    @property
    def unannotate(self) -> str:
        """The commands that remove the topology annotation, after upgrades of programs that need it."""
        return self._unannotate(self.spec.get("trafficDistribution"))

    def _unannotate(self, field: str | None) -> str:
        (key, _), cluster = self.annotation, self.cluster
        annotations = self.service["metadata"].get("annotations") or {}
        also = [each for each in KEYS if each != key and self.annotated and annotations.get(each) in AUTO]
        keys = " ".join(f"{each}-" for each in (key, *also))
        bare = {"metadata": {}, "spec": {**self.spec, "trafficDistribution": field}}
        need = [each for each in cluster.others if each.of(self.service).follows != "none" == each.of(bare).follows]
        first = sorted({UPGRADES[each.name] for each in need}) if field else []
        lost = ["hints then no longer follow the CPU of the zones, so a zone with few endpoints may have many clients"]
        does = {version: cluster.behaviour(version) for _, version, _ in cluster.alike}
        old = {version for version, each in does.items() if each.annotation != "unused" and self.is_read(each, version)}
        if old and (needed := [name for name, each in cluster.nodes.items() if each.version in old]):
            lost += [f"kube-proxy uses no hints without it on {listed(needed)}"]
        command = self._does(self.kubectl(f"annotate {keys}"), *lost[not self.annotated :])
        return "; then ".join([*first, command])

    def is_read(self, behaviour: Behaviour, release: Version) -> bool:
        """Return whether a kube-proxy uses the Service's zone hints. Some releases require the annotation."""
        if not behaviour.zone_hints or behaviour.annotation == "unused":
            return behaviour.zone_hints
        value = topology_annotation(self.service, Features(release))[1]
        return value in AUTO if behaviour.annotation == "auto" else value not in OFF

    @property
    def by_field(self) -> str:
        """Return the commands that remove the annotation, and set trafficDistribution unless it is already set."""
        if not self.cluster.features.enabled("ServiceTrafficDistribution"):
            return "use Kubernetes 1.31 or newer, and spec.trafficDistribution instead of the annotation"
        if self.spec.get("trafficDistribution") or self.cluster.is_deaf:
            return self.unannotate
        before, then = self._unannotate(self._zone_value), self.switch_on
        return f"{before}; {self.ask(self._zone_value)}{'' if then.removeprefix('; then ') in before else then}"

    @property
    def selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in sorted((self.spec.get("selector") or {}).items()))

    def label(self, names: Sequence[str]) -> str:
        """Return commands that label nodes with their zones (from an old label or slices) or a placeholder."""
        groups = defaultdict[tuple[str, str], list[str]](list)
        for each in names:
            old = (self.cluster.node_objects[each]["metadata"].get("labels") or {}).get(_BETA_ZONE)
            by_label = f"-l '{_BETA_ZONE}={old},!{ZONE}'" if old else ""
            groups[by_label, self.known_zone(each) or "ZONE"].append(each)
        commands, counts = [], "the zone of a node counts for all Services, and for where pods start"
        for (by_label, zone), on in sorted(groups.items(), key=lambda each: (each[0][1] == "ZONE", each[0])):
            command, more = f"kubectl label node {by_label or ' '.join(on)} {ZONE}={zone}", ""
            if zone == "ZONE" and len(on) > SHOWN:
                command = f"kubectl get nodes -l '!{ZONE}'; then, for each zone, kubectl label node NAMES {ZONE}=ZONE"
            elif zone == "ZONE" and len(on) > 1:
                more = "this is for nodes of one zone, others need a command of their own; "
            commands.append(self._does(command, more + counts))
        return "; ".join(commands)

    def known_zone(self, node: str) -> str:
        """Return the zone of a node without a zone label, according to an old label or to slices, or ""."""
        labels: Object = self.cluster.node_objects[node]["metadata"].get("labels") or {}
        return labels.get(_BETA_ZONE) or self.cluster.zones_in_slices.get(node) or ""

    @property
    def writers(self) -> list[str]:
        """The clients that wrote endpoints into the slices, according to managedFields."""
        fields = (each for each in self._managed_fields if "f:endpoints" in (each.get("fieldsV1") or {}))
        return sorted({str(each.get("manager")) for each in fields})

    @property
    def touch(self) -> str:
        """Return the command that makes the controller sync the Service again."""
        return self.kubectl('annotate trafficdist.dev/touched="$(date +%s)" --overwrite')

    @property
    def show_writers(self) -> str:
        look = f"kubectl -n {self.namespace} get endpointslices -l {SERVICE_NAME}={self.name} -o yaml"
        return f"find out which client writes them: {look} --show-managed-fields"

    @property
    def sync(self) -> str:
        """Return the commands that make the controller process the Service, or show why it does not."""
        pods = "-l component=kube-controller-manager"
        if self.cluster.controller_is_gone:
            return f"find out why the controller does not run: kubectl -n kube-system get pods {pods}"
        log = f"kubectl -n kube-system logs {pods} --tail=-1 | grep {self.namespace}/{self.name}"
        return f"{self.touch}; if that changes nothing, {log}"

    @property
    def evidence(self) -> tuple[str, ...]:
        """Return sentences about Events, conditions, the controller's Lease, and the last writer of the slices."""
        return tuple(filter(None, (*self.events, *self._conditions, self.cluster.controller(), self._written)))

    def of_slices(self, text: str) -> str:
        """Return a sentence about the slices, as `Prediction` if the slices were not read from the cluster."""
        seen = self.cluster.objects
        return Prediction(text) if seen.supposed or "endpointslices" in seen.unread else text

    @property
    def _conditions(self) -> Iterator[str]:
        for each in (self.service.get("status") or {}).get("conditions") or ():
            if "Distribution" in str(each.get("type")) and each.get("status") != "True":
                yield f"condition {each['type']} is {each.get('status')}: {each.get('message', '')}"

    @property
    def _written(self) -> str:
        last: Object = max(self._managed_fields, key=lambda each: str(each.get("time", "")), default={})
        return f"slices last written by {last.get('manager', '?')} at {last['time']}" if last.get("time") else ""


def endpoints_of(slices: Iterable[Object]) -> list[tuple[Object, Object]]:
    return [(each, one) for one in slices for each in one.get("endpoints") or ()]


def zones_of(endpoint: Object) -> list[str]:
    """Return the zones in the hints of an endpoint."""
    return [str(each["name"]) for each in (endpoint.get("hints") or {}).get("forZones") or ()]


def nodes_of(endpoint: Object) -> list[str]:
    """Return the nodes in the hints of an endpoint."""
    return [str(each["name"]) for each in (endpoint.get("hints") or {}).get("forNodes") or ()]


def distinct(endpoints: Iterable[Object]) -> list[Object]:
    """Return the endpoints without repeated pods. A pod may be in two slices while a controller moves it."""
    return list({(*each["addresses"][:1], name_of(each)): each for each in endpoints}.values())


def port_name(port: Object) -> str:
    """Return the name of a port of a Service, like "http/TCP"."""
    return f"{port.get('name') or port['port']}/{port.get('protocol') or 'TCP'}"


def slice_port(port: Object) -> Object:
    target = port.get("targetPort")
    number = target if isinstance(target, int) else port["port"]
    return {"name": port.get("name") or "", "port": number, "protocol": port.get("protocol") or "TCP"}


def has_port(endpoint_slice: Object, port: Object) -> bool:
    """Return whether a slice has a port with the name and protocol of this port of a Service."""
    wanted = (port.get("name") or "", port.get("protocol") or "TCP")
    ports = endpoint_slice.get("ports") or ()
    return any(each.get("port") and (each.get("name") or "", each.get("protocol") or "TCP") == wanted for each in ports)


def condition(endpoint: Object, name: str, *, default: bool = False) -> bool:
    """Return a condition of an endpoint, or `default` if it is unset."""
    value = (endpoint.get("conditions") or {}).get(name)
    return default if value is None else bool(value)
