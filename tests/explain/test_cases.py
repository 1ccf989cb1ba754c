"""Situations from public bug reports, each with its right answer. Their objects are in the folder `cases`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from explain import dump
from explain import objects as files
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from explain.overview import overview
from explain.text import answer
from tests.explain.applying import harm
from tests.explain.building import nodes

CASES = Path(__file__).with_name("cases")


def cluster(name: str) -> Cluster:
    """Return the cluster of a case. A case without nodes has the five nodes of `building`."""
    seen = dump.read(str(CASES / f"{name}.yaml"))
    unread = {key: why for key, why in seen.unread.items() if key != "nodes"}
    return Cluster(replace(seen, nodes=nodes(), unread=unread) if "nodes" in seen.unread else seen, "released")


def explained(name: str) -> tuple[Diagnosis, str]:
    seen = cluster(name)
    found = diagnose(seen.objects.services[0], seen)
    view = overview(seen)
    assert not view.rows or [(each.missed, each.says) for each in view.rows] == [(len(found.unmet), answer(found))]
    return found, answer(found)


ALL = sorted(each.stem for each in CASES.glob("*.yaml"))


@pytest.mark.parametrize("name", ALL)
def test_remedies_of_a_case_are_accepted_and_harm_nobody(name: str) -> None:
    assert harm(cluster(name).objects) == []


def test_ready_pod_is_reached_although_a_terminated_one_has_its_address() -> None:
    found, _ = explained("two-pods-one-address")
    assert {each.endpoints for each in found.routes} == {("10.244.4.2",)}
    assert found.failing == ()


def test_slice_with_another_port_name_refuses_all_connections() -> None:
    found, said = explained("port-name-differs")
    assert said.startswith("connections fail on all 5 nodes: no endpoint has port http/TCP, because the slices name")
    assert (found.wanting, found.findings[0].cause.id) == (True, "port-name-differs")


def test_target_port_that_no_pod_names_refuses_all_connections() -> None:
    found, said = explained("named-target-port")
    assert said.startswith("connections fail on all 3 nodes: no endpoint has port http/TCP, because no pod has a port")
    assert (found.wanting, found.findings[0].cause.id) == (True, "target-port-of-no-pod")


def test_port_without_endpoints_is_named_first() -> None:
    found, said = explained("one-of-two-ports-unserved")
    assert said.startswith("connections to port grpc/TCP fail on all 3 nodes: ")
    assert (found.wanting, found.findings[0].cause.id) == (True, "target-port-of-no-pod")


def test_proxies_that_know_no_node_hints_are_too_old_for_the_node() -> None:
    found, said = explained("same-node-old-proxy")
    assert (found.findings[0].cause.id, found.unmet) == ("proxy-too-old", ("n1", "n1b", "n3"))
    assert said.startswith("connections do not prefer their own node, from all 3 nodes")


def test_slice_of_the_api_server_is_never_to_be_deleted() -> None:
    found, _ = explained("remedy-deletes-the-only-slice")
    assert [each.cause.id for each in found.findings] == ["slice-of-another-manager"]
    assert not any("delete" in each.remedy for each in found.findings)


def test_cilium_without_kube_proxy_gets_no_plain_promise() -> None:
    found, said = explained("cilium-without-kube-proxy")
    assert said == (
        "it is not known whether connections stay in the zone: on 3 nodes, Cilium 1.18.0 serves Services to pods; it "
        "uses hints only with enable-service-topology (ConfigMap cilium-config, which was not read), and no node "
        "hints, so the table holds there only if it follows hints as kube-proxy does"
    )
    assert (found.uncertain, found.wanting) == (("n1", "n2", "n3"), False)


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


def test_kube_proxy_of_static_pods_is_recognised_by_its_component() -> None:
    found, _ = explained("kube-proxy-labelled-component")
    assert (found.findings[0].cause.id, found.unmet) == ("proxy-too-old", ("n1", "n2", "n3"))
