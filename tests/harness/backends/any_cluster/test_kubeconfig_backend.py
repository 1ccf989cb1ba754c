"""Tests that scenarios through a cluster's API have the verdicts of the embedded cluster, and leave no objects."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import conformance
from emulator.kubelet.kubelet import Kubelet
from harness import eventually as eventually_module
from harness.api.name_translation import NameTranslation
from harness.backends.any_cluster import barrier
from harness.backends.any_cluster.barrier import RESTARTED, ZoneCanary
from harness.backends.any_cluster.pods import ClientPod
from harness.backends.any_cluster.target import ClusterTarget
from harness.backends.backend import WantedPod
from harness.backends.implementation import reference
from harness.backends.kind.backend import KindBackend
from harness.backends.kubeconfig import KubeconfigBackend
from harness.backends.netns import NetnsBackend
from harness.errors import StarvedError, UnavailableError
from harness.eventually import eventually
from harness.guest.labels import RUN_LABEL
from harness.model import needs
from harness.model.abilities import Ability
from harness.model.manifests import has_condition
from harness.model.outcomes import TIMED_OUT, Reached, Unknown
from harness.model.release import API_SERVER, Component
from harness.model.topology import THREE_ZONES
from harness.model.workloads import node_client
from harness.netns import sysctls
from harness.plugin.evidence import gather
from harness.scenario.service import endpoint
from harness.scenario.service_address import ClientRef, service_address
from mutants import BENIGN, MUTANTS
from tests.conformance.mutant_trials import SCENARIOS
from tests.harness.backends.any_cluster.conftest import RESTARTS, RUN_ID, ReplaceableComponents, Stranger, target_of
from tests.harness.guest.snapshot import differences, snapshot

NEARBY = "KEP-4444/zone-hints-keep-traffic-in-the-zone"
LEFT = "service.kubernetes.io/service-proxy-name"
NODES = "KEP-3015/node-then-zone-then-anywhere"


def run(stranger: Stranger, requirement: str, mutant: str = "", *abilities: Ability) -> None:
    implementation = reference(MUTANTS[mutant]) if mutant else None
    scenario = SCENARIOS[requirement]
    scenario.test(stranger(implementation, *abilities)(), **scenario.cases[0])


@pytest.mark.parametrize("requirement", [NEARBY, NODES])
def test_reference_passes_through_its_api(stranger: Stranger, requirement: str) -> None:
    run(stranger, requirement)


def test_datagrams_that_reuse_an_earlier_flow_are_not_a_fault(stranger: Stranger) -> None:
    scenario = SCENARIOS["AFFINITY/moves-with-hints"]
    over_udp = next(case for case in scenario.cases if case["port"].protocol == "UDP")
    scenario.test(stranger(reference(MUTANTS["leaves-udp-flows"]))(), **over_udp)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["a1", node_client("a1")], ids=str)
def test_connections_that_reuse_earlier_ones_are_not_a_fault(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch, who: ClientRef
) -> None:
    """The first SYNs arrive before the proxy has rules for the Service.

    Later connections reuse the same source ports.
    """
    few = {**sysctls._HOST["IPv4"], "ipv4/ip_local_port_range": "40000 41023"}
    monkeypatch.setattr(sysctls, "_HOST", {**sysctls._HOST, "IPv4": few})
    cluster = stranger()()
    service = cluster.create_service(labels={LEFT: "another"})
    (b1,) = cluster.run_servers(on=["b1"])
    cluster.publish(service, [endpoint(b1)])
    cluster.settle()
    probes = service_address(cluster, service).path(who, frozenset()).probes(60)
    assert set(cluster.backend.booted.probe(probes)) == {TIMED_OUT}

    cluster.patch_service(service, {"metadata": {"labels": {LEFT: None}}})
    cluster.settle()
    seen = {type(each) for _ in range(2) for each in cluster.backend.booted.probe(probes)}
    assert seen == ({Reached} if who == "a1" else {Reached, Unknown})


@pytest.mark.parametrize("slug", ["proxy-catches-up", "missed-changes-are-caught-up", "controller-catches-up"])
def test_stopped_components_are_waited_for(stranger: Stranger, slug: str) -> None:
    run(stranger, f"KEP-4444/{slug}", "", *RESTARTS)


def test_a_node_is_drained_of_its_pods(stranger: Stranger) -> None:
    run(stranger, "KEP-4444/drained-node-loses-no-connection", "", Ability.CHANGE_NODES)


def test_stopped_node_is_waited_for_and_not_probed(stranger: Stranger) -> None:
    run(stranger, "KEP-4444/zone-outlives-its-node", "", Ability.STOP_NODES)


@pytest.mark.parametrize("mutant", ["ignores-zone-hints", pytest.param("leaks-five-percent", marks=pytest.mark.slow)])
def test_fault_is_found_through_the_api(stranger: Stranger, mutant: str) -> None:
    with pytest.raises(AssertionError, match="not allowed"):
        run(stranger, NEARBY, mutant)


@pytest.mark.slow
def test_fault_found_through_the_api_has_evidence(stranger: Stranger) -> None:
    cluster = stranger(reference(MUTANTS["ignores-zone-hints"]))()
    with pytest.raises(AssertionError, match=r"that its objects require:\n(.*\n)* *a1 a2 +a .* zone ") as failed:
        SCENARIOS[NEARBY].test(cluster)
    assert f"write slice web-1-slice-ipv4, {len(cluster.running)} endpoints: a1 (" in str(failed.value)

    texts = gather({"three_zones": cluster}, evidence=True).texts
    assert "  a1 is a1\n" in f"  {texts['nodes.txt']}"
    assert re.search(r"a1 a2 +a .* zone ", texts["decisions.txt"])
    assert re.search(
        rf"\+[\d,]+ ms  create endpointslice web-1-slice-ipv4 -n {cluster.namespace}\n", texts["api-requests.txt"]
    )
    assert "name: web-1-slice-ipv4" in texts["endpointslices.yaml"]
    assert all(text.strip() and "could not be gathered" not in text for text in texts.values())
    (path,) = (text for name, text in texts.items() if name.startswith("path-"))
    lacks = re.findall("^Missing here: ([^:]+):", path, re.MULTILINE)
    assert lacks == [
        "which rules handled the packet",
        "its conntrack entry",
        "its packets at the node",
        "its packets at client and server",
        "the log of its proxy",
    ]
    assert "no pod in kube-system with label k8s-app=kube-proxy" in path
    assert re.search(r"\n *a1 a2 +a .* zone ", path)  # the expected endpoints and the reason


@pytest.fixture
def a_kubeconfig(tmp_path: Path) -> Path:
    """Return the kubeconfig of a cluster to which no request is sent."""
    entries = {"cluster": {"server": "https://127.0.0.1:1"}, "user": {}, "context": {"cluster": "x", "user": "x"}}
    config = {f"{kind}s": [{"name": "x", kind: entry}] for kind, entry in entries.items()}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({**config, "current-context": "x"}))
    return tmp_path / "kubeconfig"


def test_closing_the_backend_closes_its_components(a_kubeconfig: Path) -> None:
    class ClosableComponents(ReplaceableComponents):
        def __init__(self) -> None:
            self.closed = False

        def close(self) -> None:
            self.closed = True

    components = ClosableComponents()
    target = ClusterTarget(str(a_kubeconfig), "", RUN_ID, NameTranslation(), THREE_ZONES, frozenset())
    KindBackend(target, target.plain_api(), components=components).close()
    assert components.closed


def test_a_run_can_end_while_the_api_server_is_away(tmp_path: Path, netns_allowed: None) -> None:
    with NetnsBackend() as booted, Kubelet(booted.kubeconfig(), booted.network, trust=booted.control_plane.kubelets):
        share = target_of(booted.kubeconfig(), tmp_path)
        backend = KubeconfigBackend(share, share.plain_api()).start()
        booted.stop_component(Component.API_SERVER, [])
        backend.close()


def test_missing_abilities_are_named(stranger: Stranger) -> None:
    cluster = stranger()()
    with pytest.raises(UnavailableError, match="backend kubeconfig has no restart-proxy here"):
        cluster.restart("service-proxy")  # type: ignore[arg-type]
    with pytest.raises(UnavailableError, match="change-nodes"):
        cluster.nodes.move("a1", "b")


def test_pods_satisfy_the_restricted_standard_and_carry_the_label_of_the_run(stranger: Stranger) -> None:
    cluster = stranger()()
    cluster.run_servers(on=["a1"], labels={"app": "web"})
    (pod,) = cluster.api.list("pods", cluster.namespace)
    security = pod["spec"]["containers"][0]["securityContext"]
    assert pod["metadata"]["labels"] == {"app": "web", RUN_LABEL: RUN_ID}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert security == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert "@sha256:" in pod["spec"]["containers"][0]["image"]


def test_twenty_pods_are_created_at_once(stranger: Stranger) -> None:
    cluster = stranger()()
    nodes = ["a1", "a2", "b1", "b2", "c1"] * 4
    pods = cluster.backend.booted.run_pods(
        cluster.namespace, [WantedPod(f"p{number}", node) for number, node in enumerate(nodes)]
    )
    assert [pod.node for pod in pods] == nodes
    assert len({ip for pod in pods for ip in pod.addresses.values()}) == 40


def test_readiness_is_what_the_kubelet_reports(stranger: Stranger) -> None:
    cluster = stranger()()
    cluster.run_servers(on=["a1"])
    cluster.set_ready("a1", ready=False)
    cluster.backend.settle()
    (pod,) = cluster.api.list("pods", cluster.namespace)
    assert {each["type"]: each["status"] for each in pod["status"]["conditions"]}["Ready"] == "False"


def test_changed_node_is_restored(stranger: Stranger) -> None:
    cluster = stranger(None, Ability.CHANGE_NODES)()
    before = snapshot(cluster.api)
    cluster.nodes.move("a1", "c")
    assert cluster.api.get("nodes", "", "a1")["metadata"]["annotations"]["trafficdist.dev/before"]
    cluster.nodes.restore()
    assert not [each for each in differences(before, snapshot(cluster.api)) if "nodes" in each]


def test_proxy_that_receives_its_node_late_is_waited_for(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str | None, bool]] = []

    def noted(canary: ZoneCanary, client: ClientPod, zone: str | None, *rest: Any) -> bool:
        shown.append((zone, wait(canary, client, zone, *rest)))
        return shown[-1][1]

    wait = ZoneCanary.wait
    monkeypatch.setattr(ZoneCanary, "wait", noted)
    late = reference(BENIGN["proxy-hears-of-nodes-1-s-late"])
    cluster = stranger(late, Ability.CHANGE_NODES)()
    for zone in ("b", None):
        begin = time.monotonic()
        cluster.nodes.move("a2", zone)
        assert time.monotonic() - begin > 1
    cluster.nodes.restore()
    assert shown == [("b", True), (None, True), ("a", True)]


def test_proxy_that_never_receives_its_node_fails(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenario sees the fault in packets. The barrier does not end it before; a busy machine only adds doubt."""
    monkeypatch.setattr(eventually_module, "FAR", 1.0)
    with pytest.raises((AssertionError, StarvedError), match="a2 reached a1"):
        run(stranger, "KEP-4444/relabelled-node-uses-its-new-zone", "ignores-node-updates", Ability.CHANGE_NODES)


def test_scenario_leaves_no_objects(stranger: Stranger) -> None:
    make = stranger()
    first = make()
    before = snapshot(first.api)
    cluster = make()
    service = cluster.create_service()
    cluster.publish(service, [])
    cluster.run_servers(on=["a1", "b1"])
    cluster.close()

    def equal() -> bool:
        return not _without_barrier(differences(before, snapshot(first.api)))

    eventually(equal, within=20, every=0.05, describe="nothing to be left")


def _without_barrier(found: list[str]) -> list[str]:
    """Return the differences without the objects of the run's own barrier."""
    return [each for each in found if "barrier" not in each]


def test_all_requirements_have_needs() -> None:
    table = needs.read(Path(conformance.__path__[0]))
    assert table.keys() == SCENARIOS.keys()
    assert table[NEARBY].nodes == {"a1", "a2", "b1", "b2"}


def test_wait_is_longer_only_after_a_replacement(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, wait = stranger(None, *RESTARTS)(), barrier.eventually
    limits: list[float | None] = []

    def noted(*arguments: Any, within: float | None, describe: str | Callable[[], str], **rest: Any) -> Any:
        if callable(describe):  # the wait for the proxies, which says where it has not arrived
            limits.append(within)
        return wait(*arguments, within=within, describe=describe, **rest)

    monkeypatch.setattr(barrier, "eventually", noted)
    cluster.restart(API_SERVER)
    assert limits == []
    cluster.backend.settle()
    cluster.api.create("services", cluster.namespace, {"metadata": {"name": "more"}, "spec": {"ports": [{"port": 80}]}})
    cluster.backend.settle()
    assert limits == [RESTARTED, None]


def test_pod_creation_waits_for_readiness_when_kubelets_may_be_late(stranger: Stranger) -> None:
    cluster = stranger(None, *RESTARTS)()
    cluster.restart(API_SERVER)
    cluster.create_pod("p1", "a1", labels={"app": "web"})
    assert has_condition(cluster.api.get("pods", cluster.namespace, "p1"), "Ready")
