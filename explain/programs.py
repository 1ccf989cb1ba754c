"""Find the service proxy of a node from its pods, and how the proxy uses hints.

docs/implementation-differences.md has the sources for proxies other than kube-proxy. Some of these proxies route
connections of pods even if kube-proxy also runs on the node.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from explain.components import PROXY
from harness.api.client import Object
from harness.checks.service_proxies import Reads, recognise

CILIUM_CONFIG = "cilium-config"
CILIUM_SETTINGS = ("enable-service-topology", "kube-proxy-replacement")
_ARGUMENT, _VARIABLE = "--run-service-proxy", "FELIX_BPFENABLED"  # of kube-router and Calico

_BESIDE = {"Cilium", "GKE Dataplane V2", "Antrea", "OVN-Kubernetes"}
"""The programs that translate cluster IPs for pods, whether kube-proxy runs or not (cilium/cilium#16197)."""

_KNOWN_TO_CILIUM = ({"PreferSameZone", "PreferSameNode"}, (1, 20)), ({"PreferClose"}, (1, 16))
"""Values of trafficDistribution, each with the first Cilium release that supports them."""


@dataclass(frozen=True, slots=True)
class ProxyProgram:
    """A service proxy, with the version and the image of its pod.

    `name` is "" if no proxy pod was found. kube-proxy is then assumed. `reads` are the hints that it follows, `does`
    describes this in words, and `when` is the condition under which it routes Services. `annotated` is true if it
    follows hints only for Services with the topology annotation.
    """

    name: str = ""
    version: str = ""
    image: str = ""
    reads: Reads = "all"
    when: str = ""
    does: str = ""
    annotated: bool = False

    @property
    def is_other(self) -> bool:
        return self.name not in {"", PROXY}

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}".rstrip()

    def of(self, *, annotated: bool) -> "ProxyProgram":
        """Return the program with the hints that it uses for a Service with (`annotated`) or without the annotation."""
        return replace(self, reads="none") if self.annotated and not annotated else self

    def knows(self, value: str | None) -> bool:
        """Return whether the program supports a value of trafficDistribution."""
        if self.name not in {"Cilium", "GKE Dataplane V2"}:
            return self.reads != "zone" or value != "PreferSameNode"
        if self.name != "Cilium":
            return value not in _KNOWN_TO_CILIUM[0][0]
        since = next((release for values, release in _KNOWN_TO_CILIUM if value in values), (0, 0))
        return numbers_of(self.version) >= since

    def refuses(self, wish: str, value: str | None) -> str:
        """Return the reason why Cilium uses no hints for a Service although its settings enable hints, or ""."""
        if wish not in {"node", "zone", "cpu"}:
            return f"{self.name} uses hints only of Services that ask for their zone"
        unknown = not self.version or self.reads not in {"field", "none"}
        if self.name != "Cilium" or wish == "cpu" or unknown or self.knows(value):
            return ""
        since = next(release for values, release in _KNOWN_TO_CILIUM if value in values)
        return f"{self.title} does not know trafficDistribution {value}, which is known since {since[0]}.{since[1]}"

    def because(self, wish: str, refused: str, said: str, *, near: bool) -> str:
        """Return the reason for a route, adapted to this program. `near` is true if near endpoints are preferred."""
        if self.reads == "none" and not near:
            return f"{self.name} {self.does}"
        if self.reads != "field" or near:
            return said.replace("hinted for the node", "on the node") if self.reads == "field" else said
        return refused or (f"no ready endpoint is on it, and {self.name} then uses any" if wish == "node" else said)

    @property
    def switch_on(self) -> str:
        """The setting that makes Cilium use hints, or "" if it is set or this is another program."""
        topology = "set loadBalancer.serviceTopology=true in the Helm values of Cilium, and restart its agents"
        return topology if self.name == "Cilium" and self.reads == "none" else ""

    def remedy(self, refused: str, set_field: str, probe: str) -> str:
        """Return commands or advice that make the program use hints, or else `probe`, which shows whether it does.

        `set_field` is the command that sets PreferClose.
        """
        upgrade = f"upgrade Cilium, or {set_field}" * bool(refused)
        if self.annotated and self.reads:
            return "upgrade Calico to 3.31.5 or newer"
        if self.name == "Cilium" and not self.reads:
            return f"kubectl -n kube-system get configmap {CILIUM_CONFIG} -o yaml; or {probe}"
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
        reads = "all" if version and numbers_of(version) >= (3, 31, 5) else ""
        if version and not reads:
            does = "follows hints of Services with the annotation, and of others since 3.31.5"
        on = [str(each.get("value")).lower() for one in containers for each in settings(one).get("env", ())]
        when = when if not on else "" if "true" in on else "never"
    elif known.name == "kube-router":
        given = [each.partition("=")[2] for one in containers for each in settings(one).get("args", ())]
        when = when if not given else "never" if "false" in given else ""
    annotated = known.name == "Calico eBPF" and bool(version) and not reads
    return None if when == "never" else ProxyProgram(known.name, version, image, reads, when, does, annotated)


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
    said, (_, since) = f"uses zone hints of Services that ask ({topology} is true)", _KNOWN_TO_CILIUM[0]
    nodes = "" if version and numbers_of(version) < since else ", and for PreferSameNode the nodes of endpoints"
    return said + nodes, "field", when
