"""Routes of proxies other than kube-proxy agree with a second description of these proxies, for drawn clusters.

The description follows the source code of each release (see docs/implementation-differences.md), and not `explain`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from explain import dump
from explain import objects as files
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from explain.objects import Objects
from harness.api.client import Object
from tests.explain.cluster_builders import MODE, OLD_KEY, ZONES, endpoint, node, objects, of_slice, service
from tests.explain.effect_rules import said_to_fail
from tests.explain.test_programs import agents, config

_PROGRAMS = {
    "Cilium": ("cilium", "quay.io/cilium/cilium:v", "", {"k8s_app": "cilium"}),
    "Calico": ("calico-node", "calico/node:v", "true", {"k8s_app": "calico-node"}),
    "kube-router": ("kube-router", "cloudnativelabs/kube-router:v", "true", {"k8s_app": "kube-router"}),
    "OVN-Kubernetes": ("ovnkube-node", "ovn/ovn-kube:v", "", {"app": "ovnkube-node"}),
}
RELEASES = {
    "Cilium": ("1.12.9", "1.15.4", "1.16.0", "1.17.4", "1.18.0", "1.18.1", "1.19.4", "1.20.0", "1.20.2"),
    "Calico": ("3.22.0", "3.25.1", "3.26.0", "3.26.5", "3.30.1", "3.31.0", "3.31.4", "3.31.5", "3.32.0"),
    "kube-router": ("1.6.0", "2.0.1", "2.1.0", "2.5.0"),
    "OVN-Kubernetes": ("1.1.0",),
}
_FIELDS = ("PreferClose", "PreferClose", "PreferSameZone", "PreferSameNode", "")
_VALUES = ({}, {}, {MODE: "Auto"}, {OLD_KEY: "auto"}, {MODE: "Disabled"}, {OLD_KEY: "Disabled", MODE: "Auto"},
           {OLD_KEY: "Auto", MODE: "Disabled"}, {OLD_KEY: "Auto", MODE: "Auto"})  # fmt: skip


def cluster_of(name: str, release: str, drawn: random.Random) -> Objects:
    """Return a cluster that this program serves, with a drawn Service, hints and zone labels."""
    asks, local = drawn.choice(_FIELDS), drawn.choice(({}, {}, {"internalTrafficPolicy": "Local"}))
    if drawn.random() < 0.3:
        ports = [{"port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080}]
        local = local | {
            "type": "NodePort",
            "ports": ports,
            "externalTrafficPolicy": drawn.choice(("Local", "Cluster")),
        }
    asked = service(drawn.choice(_VALUES), asks=asks, **local)
    kind = drawn.choice(("all", "all", "some", "none"))
    members = []
    for place in drawn.sample([*ZONES], drawn.randint(1, 4)):
        hinted = kind == "all" or (kind == "some" and drawn.random() < 0.6)
        named = [place] if hinted and asks == "PreferSameNode" else []
        members.append(endpoint(place, hints=None if hinted else "", nodes=named, ready=drawn.random() < 0.9))
    on = [node(each, "" if drawn.random() < 0.1 else zone) for each, zone in ZONES.items()]
    pods = agents(_PROGRAMS[name][0], f"{_PROGRAMS[name][1]}{release}", _PROGRAMS[name][2], **_PROGRAMS[name][3])
    topology = config(enable_service_topology=drawn.choice(("true", "true", "false")), kube_proxy_replacement="true")
    return objects(asked, of_slice(*members), on=on, proxies=pods, configs=[topology] if name == "Cilium" else [])


def used(name: str, release: str, seen: Objects, place: str) -> set[str]:
    """Return the addresses of the endpoints that a pod on a node reaches by the cluster IP."""
    version = tuple(map(int, release.split(".")))
    (asked,), (one,) = seen.services, seen.endpointslices
    zone = next(each["metadata"]["labels"] for each in seen.nodes if each["metadata"]["name"] == place)
    spec, mine = asked["spec"], zone.get("topology.kubernetes.io/zone", "")
    ready = [each for each in one["endpoints"] if each["conditions"]["ready"]]
    since = {"Cilium": (1, 13), "Calico": (3, 26, 5), "kube-router": (2, 1)}.get(name, ())
    outside = spec.get("externalTrafficPolicy") == "Local"
    local = spec.get("internalTrafficPolicy") == "Local" if version >= since else outside and name == "kube-router"
    if local and name != "Calico":  # which filters by hints first
        return _addresses(each for each in ready if each["nodeName"] == place)
    chosen = _chosen(name, version, seen, ready, (place, mine))
    return _addresses(each for each in chosen if not local or each["nodeName"] == place)


def _chosen(
    name: str, version: tuple[int, ...], seen: Objects, ready: list[Object], own: tuple[str, str]
) -> list[Object]:
    """Return the endpoints that hints, the field and the annotation leave, for a node and its zone (`own`)."""
    spec, annotations = seen.services[0]["spec"], seen.services[0]["metadata"]["annotations"]
    field, value = spec.get("trafficDistribution"), annotations.get(OLD_KEY, annotations.get(MODE, ""))
    on_node = [each for each in ready if own[0] in _hints(each, "forNodes")]
    in_zone = [each for each in ready if own[1] in _hints(each, "forZones")]
    whole = in_zone if own[1] and all(_hints(each, "forZones") for each in ready) and in_zone else ready
    filtered = [each for each in ready if not _hints(each, "forZones") or own[1] in _hints(each, "forZones")]
    filtered = filtered if own[1] else ready
    if name == "Cilium" and seen.configs[0]["data"]["enable-service-topology"] == "true":
        if version >= (1, 20) and field == "PreferSameNode":
            return [each for each in ready if each["nodeName"] == own[0]] or ready
        reads = (
            {"PreferClose", "PreferSameZone"} if version >= (1, 20) else {"PreferClose"} if version >= (1, 16) else ()
        )
        by_zone = filtered if version == (1, 18, 0) else whole
        return by_zone if field in reads or value not in {"", "Disabled", "disabled"} else ready
    if name == "Calico" and version >= (3, 31, 5):
        return whole if annotations.get(MODE, "").lower() == "auto" else on_node or in_zone or ready
    strict = name == "Calico" and (3, 26) <= version < (3, 31) and value in {"Auto", "auto"}
    return filtered if strict else ready


def _hints(each: Object, kind: str) -> list[str]:
    return [one["name"] for one in each.get("hints", {}).get(kind, ())]


def _addresses(endpoints: Iterator[Object] | list[Object]) -> set[str]:
    return {each["addresses"][0] for each in endpoints}


@pytest.mark.parametrize(("name", "release"), [(name, each) for name, of in RELEASES.items() for each in of])
def test_nodes_use_the_endpoints_that_their_program_chooses(name: str, release: str, tmp_path: Path) -> None:
    for seed in range(60):
        seen = cluster_of(name, release, random.Random(f"{name} {release} {seed}"))
        found = diagnose(seen.services[0], Cluster(seen, "released"))
        by_node = {each: {*one.endpoints} for one in found.routes if one.clients == "internal" for each in one.nodes}
        assert by_node == {each: used(name, release, seen, each) for each in ZONES}, seed
        assert [*_wrong(name, release, seen, found)] == [], seed
        assert found.uncertain == ()
    files.write(seen, tmp_path / "dump")
    again = dump.read(str(tmp_path / "dump"))
    assert diagnose(again.services[0], Cluster(again, "released")).routes == found.routes


def _wrong(name: str, release: str, seen: Objects, found: Diagnosis) -> Iterator[str]:
    """Yield what is wrong in an answer about a program's nodes."""
    fails = {each for one in found.routes if one.fails for each in one.nodes}
    ids = {each.cause.id for each in found.findings if each.severity == "error"}
    if (fails and not ids) or "not-known" in {each.cause.id for each in found.findings}:
        yield f"no cause says why {fails} fail"
    for each in found.findings:
        if each.severity == "warning" and each.says.endswith("ask (enable-service-topology is true)"):
            yield f"a program that follows hints is blamed: {each.says}"
        if "kube-proxy" in each.remedy and each.cause.id == "proxy-too-old":
            yield f"no kube-proxy runs there: {each.remedy}"
        if name in {"OVN-Kubernetes", "kube-router"} and re.search('"trafficDistribution":"', each.remedy):
            yield f"{name} follows no hints: {each.remedy}"
        yield from (f"{each.remedy}: {one}" for one in _lost(name, release, seen, each.remedy))
        stops = {node for _, label, node in said_to_fail(each.also) if not label.endswith("external")}
        if stops != (fail := {*_stopping(name, release, seen, each.remedy)}):
            yield f"{sorted(stops ^ fail)} differ after: {each.remedy}, {each.also}"


def _stopping(name: str, release: str, seen: Objects, remedy: str) -> Iterator[str]:
    """Yield the nodes where connections from pods fail after an upgrade or another setting of their program."""
    upgraded = re.search(rf"upgrade {name}(?:,|\D* ([\d.]+) or newer)", remedy)
    version = f"{upgraded[1] or '1.20'}.0" if upgraded else release
    on = config(enable_service_topology="true", kube_proxy_replacement="true")
    then = replace(seen, configs=[on]) if "serviceTopology=true" in remedy else seen
    for place in ZONES:
        if used(name, release, seen, place) and not used(name, version, then, place):
            yield place


def _lost(name: str, release: str, seen: Objects, remedy: str) -> Iterator[str]:
    """Yield the nodes that no longer use hints after a remedy that removes annotations, without an upgrade before."""
    (asked,) = seen.services
    for one in remedy.split("; or "):
        before, _, after = one.partition(" annotate service web ")
        keys = [each for each in re.findall(r"(\S+)-(?= |;|$)", after.partition(";")[0]) if each in {MODE, OLD_KEY}]
        fields: Mapping[str, str] = {}
        for patch in re.findall(r"patch service web -p '([^']*)'", one):
            fields = {**fields, **json.loads(patch)["spec"]}
        if (
            not keys
            or "upgrade" in before
            or "internalTrafficPolicy" in fields
            or not (asked["spec"].get("trafficDistribution") or fields)
        ):
            continue
        kept = {key: value for key, value in asked["metadata"]["annotations"].items() if key not in keys}
        changed = {"metadata": {**asked["metadata"], "annotations": kept}, "spec": {**asked["spec"], **fields}}
        then = replace(seen, services=[changed])
        for place in ZONES:
            less = used(name, release, then, place) - used(name, release, seen, place)
            if less and asked["spec"].get("trafficDistribution") != "PreferSameNode":
                yield f"{place} then also uses {sorted(less)}"
