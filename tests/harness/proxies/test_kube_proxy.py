"""Tests kube-proxy: its configuration and its log.

If a kube-proxy binary is installed, also tests that `settle` is a barrier.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.backends.backend import WantedPod
from harness.backends.netns import NetnsBackend
from harness.binaries import Version, find_entry
from harness.checks import program_requirements
from harness.errors import EndedError, UnavailableError
from harness.eventually import eventually
from harness.guest.nodes import NodeChange
from harness.model import manifests
from harness.model.manifests import Endpoint
from harness.model.outcomes import Reached
from harness.model.release import PROXY, release
from harness.model.topology import ZONE_LABEL, grid
from harness.model.workloads import pod_client
from harness.probes.loop import Probe
from harness.proxies.kube_proxy import KubeProxy, configuration, require
from harness.proxies.kube_proxy_log import LogFollower
from harness.settings.implementations import of_settings
from harness.settings.options import resolve

NEW = """\
I1121 08:49:51.773763   27095 utils.go:59] "Skipping service due to cluster IP" service="trafficdist-barrier/c-7"
I1121 08:49:51.783541   27095 t.go:89] "Error getting endpoint slice cache keys" err="no label on endpoint slice: c-7"
I1121 08:49:51.107188   27095 proxier.go:1206] "Syncing nftables rules" ipFamily="IPv4" fullSync=true
I1121 08:49:51.147212   27095 proxier.go:1200] "SyncProxyRules complete" ipFamily="IPv4" elapsed="40.5ms"
I1121 08:49:51.147293   27095 proxier.go:1206] "Syncing nftables rules" ipFamily="IPv6" fullSync=false
"""
OLD = """\
I1121 08:49:51.107188   27095 proxier.go:798] "Syncing iptables rules"
I1121 08:49:51.147212   27095 proxier.go:792] "SyncProxyRules complete" elapsed="1.5s"
I1121 08:49:51.147293   27095 proxier.go:621] "Updated proxier node labels" labels={"a":"b"}
"""


def followed(tmp_path: Path, *parts: str) -> LogFollower:
    """Return a reader that follows a log. The log consists of these parts."""
    log = tmp_path / "log"
    log.touch()
    follower = LogFollower(log)
    for part in parts:
        with log.open("a", encoding="utf-8") as file:
            file.write(part)
        follower.update()
    return follower


def test_log_shows_barrier_objects_and_syncs_by_family(tmp_path: Path) -> None:
    follower = followed(tmp_path, NEW)
    assert (follower.services, follower.slices) == ({"c-7"}, {"c-7"})
    assert (follower.syncs["IPv4"].under_way, follower.syncs["IPv6"].under_way) == (0, 1)
    assert follower.syncs["IPv4"].ended - follower.syncs["IPv4"].began == pytest.approx(0.0405, abs=1e-5)


def test_labels_count_from_the_first_family_that_logs_them(tmp_path: Path) -> None:
    told = 'I1121 08:49:5{}.0   27095 proxier.go:909] "Updated proxier node topology labels" ipFamily="{}" labels={}\n'
    zone = '{"topology.kubernetes.io/zone":"a"}'
    follower = followed(tmp_path, told.format(1, "IPv4", zone) + told.format(2, "IPv6", zone))
    first = follower.labels_at
    assert follower.labels == {"topology.kubernetes.io/zone": "a"}
    follower = followed(tmp_path, *(told.format(second, "IPv4", "{}") for second in (3, 4)))
    assert (follower.labels, follower.labels_at) == ({}, first + 2)


def test_log_of_old_versions_has_no_family(tmp_path: Path) -> None:
    follower = followed(tmp_path, OLD)
    assert follower.syncs[""].ended - follower.syncs[""].began == pytest.approx(1.5, abs=1e-5)
    assert follower.labels == {"a": "b"}


def test_later_start_of_two_concurrent_syncs_counts(tmp_path: Path) -> None:
    begun, ended = OLD.splitlines(keepends=True)[:2]
    follower = followed(tmp_path, begun * 2, ended.replace("1.5s", "1ms"), ended)
    assert follower.syncs[""].under_way == 0
    assert follower.syncs[""].ended - follower.syncs[""].began == pytest.approx(0.001, abs=1e-5)


def test_line_written_in_two_parts_is_read_as_one(tmp_path: Path) -> None:
    middle = NEW.index("c-7") + 1
    assert followed(tmp_path, NEW[:middle], NEW[middle:]).services == {"c-7"}


def test_old_versions_are_given_the_gate_of_mode_nftables() -> None:
    def gates(version: Version) -> object:
        told = configuration(
            "a1", mode="nftables", version=version, kubeconfig=Path("k"), pod_cidrs=["10.244.0.0/16"], gates={}
        )
        return told["featureGates"]

    assert gates(Version(1, 30, 14)) == {"NFTablesProxyMode": True}
    assert gates(Version(1, 31, 0)) == {}


def test_mode_nftables_is_unavailable_before_1_29() -> None:
    with pytest.raises(UnavailableError, match=r"1\.28\.3 has no nftables mode, which was added in 1\.29"):
        require("nftables", Version(1, 28, 3))


def test_program_that_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_requirements, "search_path", lambda: "/nowhere")
    with pytest.raises(
        UnavailableError, match=r"runs `iptables`, which is not installed: .* `apt-get install iptables`"
    ):
        require("iptables", Version(1, 34, 0))


@pytest.mark.skipif(Path("/proc/net/ip_vs").exists(), reason="this kernel has IP_VS")
def test_mode_ipvs_without_ip_vs_is_unavailable_by_name() -> None:
    with pytest.raises(UnavailableError, match="ip_vs"):
        require("ipvs", Version(1, 34, 0))


@pytest.fixture(params=["nftables", "iptables"])
def backend(request: pytest.FixtureRequest) -> Iterator[NetnsBackend]:
    """Boot a cluster with the latest available kube-proxy. The cluster has two nodes in two zones."""
    try:
        settings = resolve({"proxy": "kube-proxy", "mode": request.param}, environment={})
        implementation = of_settings(settings)
        with NetnsBackend(grid("two", {"a": 1, "b": 1}), implementation=implementation) as booted:
            yield booted
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")


def test_first_packet_after_settling_is_routed_correctly(backend: NetnsBackend) -> None:
    backend.api.create("namespaces", "", {"metadata": {"name": "barrier"}})
    pods = {node: backend.run_pods("barrier", [WantedPod(node, node)])[0] for node in ("a1", "b1")}
    service = backend.api.create("services", "barrier", manifests.service("web"))
    probe = Probe(backend.namespace_of(pod_client("a1")), "TCP", service["spec"]["clusterIP"], 80)
    write = backend.api.create
    for node in ["a1", "b1"] * 4:
        write(
            "endpointslices",
            "barrier",
            manifests.endpoint_slice("web", "web", [Endpoint(pods[node].addresses, node=node)]),
        )
        backend.settle()
        assert [each.pod for each in backend.probe([probe]) if isinstance(each, Reached)] == [f"barrier/{node}"]
        write = backend.api.replace


def test_after_settling_a_proxy_knows_the_zone_that_its_node_was_given(backend: NetnsBackend) -> None:
    assert isinstance(backend.proxy, KubeProxy)
    for zone in ("z", None, "a"):
        backend.change_node("a1", NodeChange(labels={ZONE_LABEL: zone}))
        backend.settle()
        assert (backend.proxy._followers["a1"].labels or {}).get(ZONE_LABEL) == zone


def test_proxy_that_is_killed_is_an_error_with_the_end_of_its_log(backend: NetnsBackend) -> None:
    assert isinstance(backend.proxy, KubeProxy)
    process = backend.proxy._processes.running["a1"]
    os.kill(process.pid, 9)
    eventually(lambda: not process.alive, describe="its end")
    with pytest.raises(EndedError, match=r"(?s)kube-proxy on a1 was ended by SIGKILL; its log ends with:\n[EI]\d{4} "):
        backend.settle()


def test_evidence_has_rules_log_and_configuration(backend: NetnsBackend) -> None:
    evidence = backend.proxy.evidence("a1")
    tool = "nft" if backend.proxy.mode == "nftables" else "iptables-save"
    assert "kube-proxy" in evidence[f"rules-a1-{tool}.txt"] or "KUBE-SERVICES" in evidence[f"rules-a1-{tool}.txt"]
    assert "SyncProxyRules complete" in evidence["kube-proxy-a1.log"]
    assert '"hostnameOverride": "a1"' in evidence["kube-proxy-a1.json"]


def test_release_picks_another_binary_and_its_absence_is_unavailable(backend: NetnsBackend) -> None:
    with pytest.raises(UnavailableError, match=r"kube-proxy 1\.17 is not installed.*components fetch kube-proxy 1\.17"):
        backend.start_component(PROXY, release("1.17"), ["a1"])
    newest = find_entry("kube-proxy").version
    backend.start_component(PROXY, replace(release(), version=newest.series), ["a1"])
    assert "a1" in backend.proxy._processes.running  # type: ignore[attr-defined]


def test_unknown_gate_is_unavailable(backend: NetnsBackend) -> None:
    with pytest.raises(UnavailableError, match="has no feature gate ServiceTopology"):
        backend.start_component(PROXY, release(ServiceTopology=True), ["a1"])
    backend.start_component(PROXY, release(), ["a1"])
