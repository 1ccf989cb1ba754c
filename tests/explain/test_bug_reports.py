"""Situations from public bug reports, each with its right answer. Their objects are in the folder `cases`.

The answer is asked for as people do, by the command. It is compared as a whole: the first line, the nodes, the causes
with their severity, the endpoints, what serves the nodes, and the exit codes of the Service and of `--all`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from explain import dump
from explain import objects as files
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from explain.text import answer
from harness.commands.main import main
from tests.explain.apply_remedies import harm
from tests.explain.cluster_builders import nodes

CASES = Path(__file__).with_name("cases")


UNSEEN = "not known: no pod of a service proxy was seen; predicted as kube-proxy of the release of kubelet"


@dataclass(frozen=True)
class ExpectedAnswer:
    """The correct answer about a Service. `routes` are the addresses that each node uses for the first port."""

    service: str
    says: str
    unmet: str = ""
    failing: str = ""
    causes: tuple[str, ...] = ()
    remedy: str = ""
    routes: str = ""
    served: str = (
        "not known: no pod of a service proxy was seen; predicted as kube-proxy of the release of kubelet v1.35.1"
    )
    in_all: bool = True
    uncertain: str = ""


LOOK_AT_PORTS = "kubectl -n default get pods -o jsonpath='{..ports}'; then write one of these names, or a number, as "
OLD = "3 nodes run a proxy that does not use hints for nodes, as kube-proxy does since 1.34: kube-proxy 1.32.4"
NODES_UNREAD = "that EndpointSlices name (nodes were not read)"
CILIUM = (
    "on 3 nodes, Cilium 1.18.0 serves Services to pods; it uses hints only with enable-service-topology (ConfigMap "
    "cilium-config, which was not read), and no node hints, so the table holds there only if it follows hints as "
    "kube-proxy does"
)
PREDICTED = "not known: no pod of a service proxy was seen; predicted as kube-proxy of a current release"
RIGHT = {
    "two-pods-one-address": ExpectedAnswer(
        "reuse",
        f"connections leave their zone from 1 of the 2 nodes {NODES_UNREAD}: "
        "neither trafficDistribution nor a topology annotation requests hints",
        causes=("info asks-for-nothing", "info address-of-two-endpoints"),
        remedy='kubectl -n default patch service reuse -p \'{"spec":{"trafficDistribution":"PreferSameZone"}}\'; '
        "kubectl -n default patch endpointslice reuse-1 --type=json -p "
        '\'[{"op":"add","path":"/endpoints/1/hints","value":{"forZones":[{"name":"b"}]}}]\'',
        routes="a1=10.244.4.2 b2=10.244.4.2",
        served=PREDICTED,
        in_all=False,
    ),
    "port-name-differs": ExpectedAnswer(
        "ext",
        f"connections fail on the one node {NODES_UNREAD}: "
        "no endpoint has port http/TCP, because the slices name their ports otherwise ('' TCP)",
        unmet="b2",
        failing="b2",
        causes=("error port-name-differs",),
        remedy="kubectl -n default patch endpointslice ext-1 --type=json -p "
        '\'[{"op":"add","path":"/ports/0/name","value":"http"}]\'',
        routes="b2=",
        served=PREDICTED,
    ),
    "named-target-port": ExpectedAnswer(
        "named",
        "connections fail on all 3 nodes: no endpoint has port http/TCP, because no pod has a port named 'web'",
        unmet="n1 n2 n3",
        failing="n1 n2 n3",
        causes=("error target-port-of-no-pod",),
        remedy=f"{LOOK_AT_PORTS}targetPort of port http/TCP",
        routes="n1= n2= n3=",
    ),
    "one-of-two-ports-unserved": ExpectedAnswer(
        "ext",
        "connections to port grpc/TCP fail on all 3 nodes: no endpoint has port grpc/TCP, whose "
        "targetPort is the name 'grpc': pods were not read",
        unmet="n1 n2 n3",
        failing="n1 n2 n3",
        causes=("error target-port-of-no-pod", "info long-lived-connections"),
        remedy=f"{LOOK_AT_PORTS}targetPort of port grpc/TCP",
        routes="n1=10.1.0.1 n2=10.1.0.2 n3=10.1.0.3",
    ),
    "cilium-without-kube-proxy": ExpectedAnswer(
        "web",
        f"it is not known whether connections stay in the zone: {CILIUM}",
        causes=("info not-kube-proxy",),
        remedy="kubectl -n kube-system get configmap cilium-config -o yaml; or trafficdist explain default/web --probe",
        routes="n1=10.1.0.1 n2=10.1.0.2 n3=10.1.0.3",
        served="Cilium 1.18.0, by its image quay.io/cilium/cilium:v1.18.0",
        uncertain="n1 n2 n3",
    ),
    "same-node-old-proxy": ExpectedAnswer(
        "dns",
        f"connections do not prefer their own node, from all 3 nodes: {OLD} (registry.k8s.io/kube-proxy:v1.32.4)",
        unmet="n1 n1b n3",
        causes=("warning proxy-too-old",),
        remedy="upgrade kube-proxy on n1 n1b n3 to 1.34 or newer",
        routes="n1=10.1.0.1,10.1.0.2 n1b=10.1.0.1,10.1.0.2 n3=10.1.0.3",
        served="kube-proxy 1.32.4, by its image registry.k8s.io/kube-proxy:v1.32.4",
    ),
    "kube-proxy-labelled-component": ExpectedAnswer(
        "web",
        "connections do not prefer their own node, from all 3 nodes: "
        f"{OLD} (gke.gcr.io/kube-proxy-amd64:v1.32.4-gke.100)",
        unmet="n1 n2 n3",
        causes=("warning proxy-too-old",),
        remedy="upgrade kube-proxy on n1 n2 n3 to 1.34 or newer",
        routes="n1=10.1.0.1 n2=10.1.0.2 n3=10.1.0.3",
        served="kube-proxy 1.32.4, by its image gke.gcr.io/kube-proxy-amd64:v1.32.4-gke.100",
    ),
    "remedy-deletes-the-only-slice": ExpectedAnswer(
        "kubernetes",
        "connections leave their zone from all 3 nodes: none of 2 ready endpoints has hints: slice kubernetes is "
        "managed by an unnamed writer, and no controller writes hints for a Service without a selector",
        unmet="n1 n2 n3",
        causes=("warning slice-of-another-manager", "warning zone-without-endpoint"),
        remedy='kubectl -n default patch service kubernetes -p \'{"spec":{"trafficDistribution":null}}\'; '
        "the API server writes these endpoints, and takes hints away",
        routes="n1=10.9.0.1,10.9.0.2 n2=10.9.0.1,10.9.0.2 n3=10.9.0.1,10.9.0.2",
    ),
    "one-dump": ExpectedAnswer(
        "web",
        "connections stay in the zone of the client, from all 2 nodes, if kube-proxy serves them",
        routes="n1=10.1.0.1 n2=10.1.0.2",
        served=f"{UNSEEN} v1.36.1",
    ),
}


def cluster(name: str) -> Cluster:
    """Return the cluster of a case. A case without nodes has the five nodes of `building`."""
    seen = dump.read(str(CASES / f"{name}.yaml"))
    unread = {key: why for key, why in seen.unread.items() if key != "nodes"}
    return Cluster(replace(seen, nodes=nodes(), unread=unread) if "nodes" in seen.unread else seen, "released")


def explained(name: str) -> tuple[Diagnosis, str]:
    seen = cluster(name)
    found = diagnose(seen.objects.services[0], seen)
    return found, answer(found)


def run(name: str, *arguments: str) -> Result:
    command = ["explain", *arguments, "--from", str(CASES / f"{name}.yaml")]
    return CliRunner().invoke(main, command, env={"COLUMNS": "300"})


def test_each_case_has_its_right_answer() -> None:
    assert RIGHT.keys() == {each.stem for each in CASES.glob("*.yaml")}


@pytest.mark.parametrize(("name", "right"), RIGHT.items(), ids=RIGHT)
def test_answer_about_a_case_is_right(name: str, right: ExpectedAnswer) -> None:
    service = f"default/{right.service}"
    text, asked = run(name, service), run(name, service, "--format", "json")
    told = json.loads(asked.stdout)
    first, wanting = {}, bool(right.unmet)
    for each in told["routes"]:
        for node in each["nodes"]:
            first.setdefault(node, f"{node}={','.join(each['endpoints'])}")
    assert text.stdout.splitlines()[0] == f"Service {service}: {right.says}"
    assert told["answer"] == right.says
    assert [f"{each['severity']} {each['id']}" for each in told["causes"]] == [*right.causes]
    assert [each["remedy"] for each in told["causes"][:1]] == ([right.remedy] if right.remedy else [])
    assert " ".join(first[node] for node in sorted(first)) == right.routes
    assert [each["says"] for each in told["served_by"]] == [right.served]
    assert [" ".join(told[key]) for key in ("unmet", "failing", "uncertain")] == [
        right.unmet, right.failing, right.uncertain
    ]  # fmt: skip
    assert {each.exit_code for each in (text, asked)} == {int(wanting)}
    every = run(name, "--all", "--format", "json")
    rows = [(each["service"], each["says"], each["missed"]) for each in json.loads(every.stdout)["services"]]
    assert rows == ([(service, right.says, len(right.unmet.split()))] if right.in_all else [])
    assert every.exit_code == int(wanting)


@pytest.mark.parametrize("name", RIGHT)
def test_remedies_of_a_case_are_accepted_and_harm_nobody(name: str) -> None:
    assert harm(cluster(name).objects) == []


def test_ready_pod_is_reached_from_each_node_although_a_terminated_one_has_its_address() -> None:
    found, _ = explained("two-pods-one-address")
    assert {each.endpoints for each in found.routes} == {("10.244.4.2",)}
    assert (found.failing, found.nodes) == ((), 5)


def test_slice_with_another_port_name_refuses_connections_of_each_node() -> None:
    found, said = explained("port-name-differs")
    assert said.startswith("connections fail on all 5 nodes: no endpoint has port http/TCP, because the slices name")
    assert len(found.failing) == 5


def test_slice_of_the_api_server_is_never_to_be_deleted() -> None:
    found, _ = explained("remedy-deletes-the-only-slice")
    assert not any("delete" in each.remedy for each in found.findings)


@pytest.mark.parametrize(
    ("value", "asks", "wanting"),
    [
        ("true", "PreferClose", False),
        ("true", "PreferSameZone", True),  # which Cilium knows since 1.20
        ("false", "PreferClose", True),
    ],
)
def test_setting_of_cilium_decides_whether_it_follows_hints(
    value: str, asks: str, wanting: bool, tmp_path: Path
) -> None:
    seen = cluster("cilium-without-kube-proxy").objects
    seen.services[0]["spec"]["trafficDistribution"] = asks
    config = {"metadata": {"name": "cilium-config"}, "data": {"enable-service-topology": value, "other": "hidden"}}
    files.write(replace(seen, configs=[config]), tmp_path)
    assert "hidden" not in (tmp_path / "configmaps.json").read_text()
    found = diagnose(seen.services[0], Cluster(dump.read(str(tmp_path)), "released"))
    assert (found.wanting, found.uncertain) == (wanting, ())
