"""Find the service proxy of a node from its pods, and how the proxy uses hints.

docs/implementation-differences.md has the sources for proxies other than kube-proxy. Some of these proxies route
connections of pods even if kube-proxy also runs on the node.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from explain.components import PROXY
from explain.requested_topology import AUTO, OFF
from harness.api.client import Object
from harness.checks.service_proxies import Reads, recognise
from reference.endpointslice.labels import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE

CILIUM_CONFIG = "cilium-config"
CILIUM_SETTINGS = ("enable-service-topology", "kube-proxy-replacement")
_ARGUMENT, _VARIABLE = "--run-service-proxy", "FELIX_BPFENABLED"  # of kube-router and Calico

_BESIDE = {"Cilium", "GKE Dataplane V2", "Antrea", "OVN-Kubernetes"}
"""The programs that translate cluster IPs for pods, whether kube-proxy runs or not (cilium/cilium#16197)."""

# The first releases: of values of the field, of the annotation, hints for no Service and any Service, and of the policy
_CILIUM = {"PreferClose": (1, 16), "PreferSameZone": (1, 20), "PreferSameNode": (1, 20)}
_CALICO_ANNOTATION, _CALICO_NO_HINTS, _CALICO_FIELD = (3, 26), (3, 31), (3, 31, 5)
_INTERNAL_POLICY = {"kube-router": (2, 1, 0), "Cilium": (1, 13, 0), "Calico eBPF": (3, 26, 5)}
UPGRADES = {"Cilium": "upgrade Cilium to 1.20 or newer", "Calico eBPF": "upgrade Calico to 3.31.5 or newer"}

Follows = Literal["all", "each", "zone", "strict", "name", "none", ""]
"""How a program chooses endpoints: as kube-proxy does ("all"), by zone hints only ("zone"), by hints even if some
endpoints lack them ("each"), by nodeName ("name"), or never those that are hinted for other zones only ("strict").
"""


@dataclass(frozen=True, slots=True)
class ProxyProgram:
    """A service proxy, with the version and the image of its pod.

    `name` is "" if no proxy pod was found. kube-proxy is then assumed. `reads` are the hints that it follows, `does`
    describes this in words, and `when` is the condition under which it routes Services. For one Service, `follows` is
    how it chooses endpoints, and `refused` is the reason if it follows hints of other Services only.
    """

    name: str = ""
    version: str = ""
    image: str = ""
    reads: Reads = "all"
    when: str = ""
    does: str = ""
    follows: Follows = "all"
    refused: str = ""

    @property
    def is_other(self) -> bool:
        return self.name not in {"", PROXY}

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}".rstrip()

    @property
    def follows_policies_since(self) -> str:
        """The release that first follows internalTrafficPolicy for cluster IPs, or "" if this release follows it."""
        since = _INTERNAL_POLICY.get(self.name, ())
        return ".".join(map(str, since)) if self.version and numbers_of(self.version) < since else ""

    def of(self, service: Object) -> "ProxyProgram":
        """Return a copy in which `follows` and `refused` are set for this Service."""
        annotations = service["metadata"].get("annotations") or {}
        value = annotations.get(TOPOLOGY_AWARE_HINTS, annotations.get(TOPOLOGY_MODE))
        if self.name == "Calico eBPF" and self.reads == "all":
            return replace(self, follows="zone" if annotations.get(TOPOLOGY_MODE) in AUTO else "each")
        if self.name == "Calico eBPF" and self.reads == "zone":
            return replace(self, follows="strict" if value in AUTO else "none")
        if self.name != "Cilium" or not self.reads:
            return replace(self, follows="zone" if self.reads == "field" else self.reads)
        field, release = service["spec"].get("trafficDistribution"), numbers_of(self.version) or (2,)
        known = field in _CILIUM and release >= _CILIUM[field]
        if known or value not in OFF:
            by_zone: Follows = "strict" if release == (1, 18, 0) else "zone"
            follows = "name" if known and field == "PreferSameNode" else by_zone
            return replace(self, follows=follows if self.reads == "field" else "none")
        refused = f"{self.name} uses hints only of Services that ask for their zone"
        if field in _CILIUM:
            since = f"1.{_CILIUM[field][1]}"
            refused = f"{self.title} does not know trafficDistribution {field}, which is known since {since}"
        return replace(self, follows="none", refused=refused)

    def knows(self, value: str) -> bool:
        """Return whether the program follows hints of Services with this trafficDistribution, if configured to."""
        asked = {"metadata": {}, "spec": {"trafficDistribution": value}}
        if self.name == "GKE Dataplane V2":
            return value == "PreferClose"
        found = (replace(self, reads="field") if self.name == "Cilium" else self).of(asked)
        return found.follows not in ({"none", "zone"} if value == "PreferSameNode" else {"none"})

    def because(self, said: str, *, near: bool) -> str:
        """Return the reason for a route, adapted to this program. `near` is true if nearby endpoints are preferred."""
        if self.follows == "name":
            on_node = said.replace("hinted for the node", "on the node")
            return on_node if near else f"no ready endpoint is on it, and {self.name} then uses any"
        refused = f"{self.name} {self.does}" if self.reads == "none" or not self.refused else self.refused
        return refused if self.follows == "none" and not near else said

    @property
    def switch_on(self) -> str:
        """The setting or upgrade that makes Cilium or Calico use hints of each Service, or "" if none is needed."""
        topology = "set loadBalancer.serviceTopology=true in the Helm values of Cilium, and restart its agents"
        old = self.name == "Calico eBPF" and self.reads in {"zone", "none"}
        return topology if self.name == "Cilium" and self.reads == "none" else UPGRADES[self.name] if old else ""

    def after(self, remedy: str) -> "ProxyProgram":
        """Return the program as it is after a fix: with another version, or configured to use hints."""
        upgraded = re.search(rf"upgrade {self.name.partition(' ')[0]}(?:,|\D* ([\d.]+) or newer)", remedy)
        version = (upgraded[1] or "1.20") if upgraded else self.version
        if self.name == "Calico eBPF" and upgraded and numbers_of(version) >= _CALICO_FIELD:
            return replace(self, version=version, reads="all")
        return replace(self, version=version, reads="field" if "serviceTopology=true" in remedy else self.reads)

    def remedy(self, set_field: str, probe: str) -> str:
        """Return commands that make the program use hints, such as `set_field` for PreferClose, or else `probe`."""
        if self.name == "Cilium" and not self.reads:
            return f"kubectl -n kube-system get configmap {CILIUM_CONFIG} -o yaml; or {probe}"
        upgrade = f"upgrade Cilium, or {set_field}" * bool(self.refused)
        if self.name == "Cilium" and self.follows == "strict":
            upgrade = "upgrade Cilium to 1.18.1 or newer"
        return "; then ".join(filter(None, [self.switch_on, upgrade])) or probe


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the numbers in a version, as a key for sorting: (1, 35, 1) for "v1.35.1"."""
    return tuple(map(int, re.findall(r"\d+", version)))


def program_of(pods: Sequence[Object], cilium: Object | None) -> tuple[ProxyProgram, Object | None]:
    """Return the service proxy among these pods of a node, and its pod. `cilium` is the data of Cilium's ConfigMap."""
    found = [(made, pod) for pod in pods if (made := _of_pod(pod, cilium)) is not None]
    certain = [each for each in found if each[0].name in _BESIDE or (each[0].is_other and not each[0].when)]
    kube_proxy = [each for each in found if not each[0].is_other]
    return next(iter([*certain, *kube_proxy, *found]), (ProxyProgram(), None))


def _of_pod(pod: Object, cilium: Object | None) -> ProxyProgram | None:
    known = recognise(pod["metadata"]["name"], pod["metadata"].get("labels"))
    if known is None:
        return None
    containers: Sequence[Object] = (pod.get("spec") or {}).get("containers") or ({},)
    images = [str(each.get("image") or "an unknown image") for each in containers]
    image = next((each for each in images if PROXY in each), images[0])
    tag = re.search(r":v?(\d+(?:\.\d+)+)", image)
    version, when = tag[1] if tag else "", known.when.removeprefix("serves Services itself").strip()
    does, reads = known.does, known.reads
    if known.name == PROXY:
        when = ""
    elif known.name == "Cilium":
        does, reads, when = _of_cilium(cilium, version)
    elif known.name == "Calico eBPF":
        reads = "all" if version else ""
        if version and (release := numbers_of(version)) < _CALICO_FIELD:
            reads = "zone" if (by_annotation := _CALICO_ANNOTATION <= release < _CALICO_NO_HINTS) else "none"
            others = "of Services with the annotation, and of others" if by_annotation else "only"
            does = f"follows hints {others} since 3.31.5"
        on = [str(each.get("value")).lower() for one in containers for each in settings(one).get("env", ())]
        when = when if not on else "" if "true" in on else "never"
    elif known.name == "kube-router":
        given = [each.partition("=")[2] for one in containers for each in settings(one).get("args", ())]
        when = when if not given else "never" if "false" in given else ""
    return None if when == "never" else ProxyProgram(known.name, version, image, reads, when, does)


def settings(container: Object) -> Object:
    """Return the argument and the environment variable that decide whether a container acts as a service proxy."""
    arguments = [each for each in container.get("args") or () if str(each).startswith(_ARGUMENT)]
    variables = [each for each in container.get("env") or () if each.get("name") == _VARIABLE]
    return {key: each for key, each in (("args", arguments), ("env", variables)) if each}


def _of_cilium(data: Object | None, version: str) -> tuple[str, Reads, str]:
    topology, replacement = CILIUM_SETTINGS
    config = f"ConfigMap {CILIUM_CONFIG}"
    if data is None:
        return f"uses hints only with {topology} ({config}, which was not read), and no node hints", "", "to pods"
    when = "" if data.get(replacement) in {"true", "strict"} else "to pods"
    if when and replacement in data:
        when = f"to pods (not to processes of nodes: {replacement} is {data[replacement]})"
    if (value := data.get(topology, "not set")) != "true":
        return f"uses no hints: {topology} is {value} in {config}", "none", when
    old = (1,) < numbers_of(version) < _CILIUM["PreferSameNode"]
    nodes = "" if old else ", and for PreferSameNode the nodes of endpoints"
    return f"uses zone hints of Services that ask ({topology} is true){nodes}", "field", when
