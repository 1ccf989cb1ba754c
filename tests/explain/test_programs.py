"""Reasons are told in the terms of the program that serves a node, and only a seen program is named."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from explain import dump
from explain import objects as files
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from harness.api.client import Object
from harness.commands.main import main
from tests.explain.cluster_builders import AUTO, ZONES, agent, endpoint, event, objects, of_slice, pod, proxy, service
from tests.explain.recorded_cases import NO_HINTS, NODE_PORT, ROWS

_SETTINGS = {
    "kube-router": {"args": ["--run-router=false", "--run-service-proxy=VALUE"]},
    "calico-node": {"env": [{"name": "KEY", "value": "hidden"}, {"name": "FELIX_BPFENABLED", "value": "VALUE"}]},
}
_GATES = re.compile(r"gate |TopologyAwareHints|PreferSameTrafficDistribution")


def agents(name: str, image: str, value: str = "", **labels: str) -> list[Object]:
    """Return the pods of a program on each node, with its setting that decides whether it serves Services."""
    made = [agent(each, name, image, **labels) for each in ZONES]
    for each in made if value else ():
        settings = json.dumps(_SETTINGS[name]).replace("VALUE", value)
        each["spec"]["containers"][0] |= json.loads(settings)
    return made


def cilium(version: str = "1.20.2") -> list[Object]:
    return agents("cilium", f"quay.io/cilium/cilium:v{version}", k8s_app="cilium")


def config(**data: str) -> Object:
    return {"metadata": {"name": "cilium-config"}, "data": {key.replace("_", "-"): each for key, each in data.items()}}


def told(folder: Path, pods: list[Object], *configs: Object, asks: str = "PreferSameZone") -> Diagnosis:
    """Return the diagnosis of a recording of the cluster, which must keep what it needs and no more."""
    files.write(objects(service(asks=asks), proxies=pods, configs=configs), folder)
    assert not [each for each in folder.iterdir() if "hidden" in each.read_text() or "run-router" in each.read_text()]
    seen = dump.read(str(folder))
    return diagnose(seen.services[0], Cluster(seen, "released"))


KUBE_ROUTER = ("kube-router", "cloudnativelabs/kube-router:v2.2.1")
CALICO = ("calico-node", "calico/node:v3.32.0")
ON, OFF = {"enable_service_topology": "true"}, {"enable_service_topology": "false"}
PROXIES = [proxy(each) for each in ZONES]
SAID: dict[str, tuple[list[Object], list[Object], str, str]] = {
    "Cilium, off": (
        cilium(),
        [config(**OFF, kube_proxy_replacement="true")],
        "Cilium 1.20.2 serves Services; it uses no hints: enable-service-topology is false in ConfigMap cilium-config",
        "Cilium uses no hints: enable-service-topology is false in ConfigMap cilium-config",
    ),
    "Cilium, not set, beside kube-proxy": (
        [*PROXIES, *cilium()],
        [config(kube_proxy_replacement="false")],
        "Cilium 1.20.2 serves Services to pods (not to processes of nodes: kube-proxy-replacement is false); it",
        "Cilium uses no hints: enable-service-topology is not set in ConfigMap cilium-config",
    ),
    "Cilium, on": (
        cilium(),
        [config(**ON, kube_proxy_replacement="true")],
        "Cilium 1.20.2 serves Services; it uses zone hints of Services that ask (enable-service-topology is true)",
        "ready endpoints that are hinted for zone a: 1 of 3",
    ),
    "Cilium, on, before it knew the value": (
        cilium("1.19.4"),
        [config(**ON, kube_proxy_replacement="true")],
        "but Cilium 1.19.4 does not know trafficDistribution PreferSameZone, which is known since 1.20",
        "Cilium 1.19.4 does not know trafficDistribution PreferSameZone, which is known since 1.20",
    ),
    "kube-router, perhaps": (
        agents(*KUBE_ROUTER, k8s_app="kube-router"),
        [],
        "kube-router 2.2.1 serves Services with --run-service-proxy; it reads no hints",
        "kube-router reads no hints",
    ),
    "kube-router, with the argument": (
        [*PROXIES, *agents(*KUBE_ROUTER, "true", k8s_app="kube-router")],
        [],
        "kube-router 2.2.1 serves Services; it reads no hints",
        "kube-router reads no hints",
    ),
    "Calico with its variable": (
        [*PROXIES, *agents(*CALICO, "true", k8s_app="calico-node")],
        [],
        "Calico eBPF 3.32.0 serves Services; it follows hints from 3.31.5",
        "ready endpoints that are hinted for zone a: 1 of 3",
    ),
    "Calico before it followed hints of the field": (
        agents("calico-node", "calico/node:v3.30.1", "true", k8s_app="calico-node"),
        [],
        "Calico eBPF 3.30.1 serves Services; it follows hints of Services with the annotation, and of others since",
        "Calico eBPF follows hints of Services with the annotation, and of others since 3.31.5",
    ),
    "OVN-Kubernetes": (
        agents("ovnkube-node", "ovn/ovn-kube:v1.1.0", app="ovnkube-node"),
        [],
        "OVN-Kubernetes 1.1.0 serves Services; it reads no hints",
        "OVN-Kubernetes reads no hints",
    ),
    "Antrea beside kube-proxy": (
        [*PROXIES, *agents("antrea-agent", "antrea/antrea-agent:v2.5.0", component="antrea-agent")],
        [],
        "Antrea 2.5.0 serves Services (AntreaProxy); it follows zone hints, but node hints only behind a gate",
        "ready endpoints that are hinted for zone a: 1 of 3",
    ),
    "GKE Dataplane V2": (
        agents("anetd", "gke.gcr.io/cilium/cilium:v1.14.6", k8s_app="cilium"),
        [config(**OFF)],
        "GKE Dataplane V2 1.14.6 serves Services; it is a build of Cilium, and its version decides whether it",
        "ready endpoints that are hinted for zone a: 1 of 3",
    ),
}


@pytest.mark.parametrize(("pods", "configs", "says", "because"), SAID.values(), ids=SAID)
def test_program_and_its_reason_are_told_in_its_own_terms(
    pods: list[Object], configs: list[Object], says: str, because: str, tmp_path: Path
) -> None:
    found = told(tmp_path, pods, *configs)
    (cause,) = [each for each in found.findings if each.cause.id == "not-kube-proxy"]
    assert cause.says.startswith("on 5 nodes, ")
    assert says in cause.says
    assert because in {each.because for each in found.routes}
    assert not any(_GATES.search(each.because) for each in found.routes)


OFF_PODS = {
    "kube-router": agents(*KUBE_ROUTER, "false", k8s_app="kube-router"),
    "Calico": agents(*CALICO, "false", k8s_app="calico-node"),
}


@pytest.mark.parametrize("pods", OFF_PODS.values(), ids=OFF_PODS)
def test_program_that_is_set_not_to_serve_is_not_named(pods: list[Object], tmp_path: Path) -> None:
    found = told(tmp_path, pods)
    assert (found.findings, found.uncertain) == ((), ())


def test_program_that_may_serve_gives_way_to_kube_proxy(tmp_path: Path) -> None:
    assert told(tmp_path, [*agents(*CALICO, k8s_app="calico-node"), *PROXIES]).findings == ()


@pytest.mark.parametrize(("annotations", "tiers"), [({}, {"anywhere"}), (AUTO, {"zone"})])
def test_old_calico_follows_hints_by_the_annotation_beside_the_field(
    annotations: dict[str, str], tiers: set[str]
) -> None:
    pods = agents("calico-node", "calico/node:v3.30.1", "true", k8s_app="calico-node")
    found = diagnose(service(annotations), Cluster(objects(service(annotations), proxies=pods), "released"))
    assert {each.tier for each in found.routes} == tiers
    assert found.uncertain == ()


@pytest.mark.parametrize("asks", ["PreferSameNode", ""])
def test_cilium_says_why_it_prefers_no_place(asks: str, tmp_path: Path) -> None:
    found = told(tmp_path, cilium(), config(**ON), asks=asks)
    reasons = {name: each.because for each in found.routes for name in each.nodes}
    if asks:
        assert reasons["a1"] == "ready endpoints that are on the node: 1 of 3"
        assert reasons["a2"] == "no ready endpoint is on it, and Cilium then uses any"
    else:
        assert {*reasons.values()} == {"Cilium uses hints only of Services that ask for their zone"}


def test_cilium_is_set_to_use_hints_by_its_own_option(tmp_path: Path) -> None:
    found = told(tmp_path, cilium("1.18.2"), config(**OFF))
    assert found.findings[0].remedy == (
        "set loadBalancer.serviceTopology=true in the Helm values of Cilium, and restart its agents; then upgrade "
        'Cilium, or kubectl -n shop patch service web -p \'{"spec":{"trafficDistribution":"PreferClose"}}\''
    )


REMEDIES = {
    "kube-proxy": (PROXIES, [], "PreferSameZone", "PreferSameNode", ""),
    "Cilium": (cilium(), [config(**ON)], "PreferSameZone", "PreferSameNode", ""),
    "an old Cilium": (cilium("1.17.2"), [config(**ON)], "PreferClose", "PreferClose", ""),
    "an old Cilium, off": (
        cilium("1.17.2"),
        [config(**OFF)],
        "PreferClose",
        "PreferClose",
        "serviceTopology=true in the",
    ),
    "an old Cilium on one node": (
        [*PROXIES[1:], *cilium("1.17.2")[:1]],
        [config(**ON)],
        "PreferClose",
        "PreferClose",
        "",
    ),
    "Antrea": (
        agents("antrea-agent", "antrea/antrea-agent:v2.5.0", component="antrea-agent"),
        [],
        "PreferSameZone",
        "PreferClose",
        "",
    ),
}


@pytest.mark.parametrize(("pods", "configs", "zone", "node", "then"), REMEDIES.values(), ids=REMEDIES)
def test_remedy_has_the_value_that_the_programs_of_all_nodes_know(
    pods: list[Object], configs: list[Object], zone: str, node: str, then: str
) -> None:
    local = service(asks="", internalTrafficPolicy="Local")
    for asked, cause, value in ((service(asks=""), "asks-for-nothing", zone), (local, "internal-policy-local", node)):
        seen = objects(asked, NO_HINTS, proxies=pods, configs=configs)
        (told,) = [each for each in diagnose(asked, Cluster(seen, "released")).findings if each.cause.id == cause]
        assert f'"trafficDistribution":"{value}"' in told.remedy
        assert then in told.remedy


def test_version_is_the_one_that_was_seen_and_not_the_nearest_that_is_known(tmp_path: Path) -> None:
    seen = objects(proxies=[proxy("a1", "v1.99.1"), proxy("b1", "latest")])
    files.write(seen, tmp_path)
    nodes = Cluster(dump.read(str(tmp_path)), "released").nodes
    assert nodes["a1"].served_by == "kube-proxy 1.99.1, by its image registry.k8s.io/kube-proxy:v1.99.1"
    assert nodes["b1"].served_by == (
        "kube-proxy, by its image registry.k8s.io/kube-proxy:latest; predicted as one of the release of kubelet v1.37.0"
    )


# What was seen, and what is predicted


def run(source: Path | str, *arguments: str) -> str:
    command = ["explain", "shop/web", "--from", str(source), *arguments]
    return CliRunner().invoke(main, command, env={"COLUMNS": "160"}).output


def test_refusal_of_the_controller_is_predicted_and_its_event_is_seen(tmp_path: Path) -> None:
    (row,) = [each for each in ROWS.values() if each.cause == "one-zone"][:1]
    files.write(row.seen, tmp_path / "silent")
    (cause,) = json.loads(run(tmp_path / "silent", "--format", "json"))["causes"][:1]
    assert cause["evidence"] == []
    (refusal,) = cause["predicted"]
    assert f"\n  predicted {refusal}\n" in run(tmp_path / "silent")
    with_event = event("TopologyAwareHintsDisabled", refusal.removeprefix("the controller refuses: "))
    files.write(replace(row.seen, events=[with_event]), tmp_path / "told")
    (cause,) = json.loads(run(tmp_path / "told", "--format", "json"))["causes"][:1]
    assert (len(cause["evidence"]), cause["predicted"]) == (1, [refusal])


def test_endpoints_of_a_supposition_are_predicted(tmp_path: Path) -> None:
    files.write(objects(pods=[pod("web-a1", "a1")]), tmp_path)
    assert "\n  predicted ready endpoints: 1 in zone a\n" in run(tmp_path, "--if", "scale=1")
    then = json.loads(run(tmp_path, "--if", "scale=1", "--format", "json"))["then"]
    assert [(each["evidence"], each["predicted"]) for each in then["causes"]] == [
        ([], ["ready endpoints: 1 in zone a"])
    ]


@pytest.mark.parametrize(
    ("version", "kind", "inside", "outside"),
    [
        ("v1.23.17", "NodePort", "reject", ["reject"]),
        ("v1.23.17", "LoadBalancer", "reject", ["reject"]),  # without health checks of nodes
        ("v1.23.17", "ClusterIP", "reject", []),
        ("v1.24.0", "NodePort", "drop", ["hints"]),
    ],
)
def test_kube_proxy_before_1_24_rejects_and_limits_external_clients(
    version: str, kind: str, inside: str, outside: list[str]
) -> None:
    more = {} if kind == "ClusterIP" else {"externalTrafficPolicy": "Cluster", "ports": NODE_PORT}
    asked = service(asks="", type=kind, internalTrafficPolicy="Local", **more)
    seen = objects(asked, of_slice(endpoint("a1")), proxies=[proxy(each, version) for each in ZONES])
    found = diagnose(seen.services[0], Cluster(seen, "released"))
    at_c1 = [each for each in found.routes if "c1" in each.nodes]
    words = {
        clients: [each.because.partition(" ")[0] for each in at_c1 if each.clients == clients]
        for clients in ("internal", "external")
    }
    assert words == {"internal": [inside], "external": outside}
    at_a1 = [each.tier for each in found.routes if each.clients == "external" and "a1" in each.nodes]
    assert at_a1 == {"reject": ["local"], "hints": ["anywhere"]}.get("".join(outside), [])
    assert found.failing == ("a2", "b1", "b2", "c1")
    named = [each.nodes for each in found.findings if each.cause.id == "proxy-too-old" and each.severity == "error"]
    assert named == [("a2", "b1", "b2", "c1")] * outside.count("reject")
