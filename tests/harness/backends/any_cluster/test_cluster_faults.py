"""Tests faults of a foreign cluster.

Each fault causes a one-line error that says how to fix it, fails no requirement, and leaves no objects.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from emulator.kubelet.images import REGISTRY
from emulator.kubelet.kubelet import Kubelet
from harness.backends import kubeconfig
from harness.backends.any_cluster import pod_runner
from harness.backends.any_cluster.target import ALWAYS, ClusterTarget, match_nodes
from harness.backends.backend import WantedPod
from harness.backends.kind.backend import KindBackend
from harness.backends.kubeconfig import KubeconfigBackend
from harness.backends.netns import NetnsBackend
from harness.errors import DistrustError, InconclusiveError, UnavailableError
from harness.eventually import eventually
from harness.guest.permissions import RULES
from harness.judging.history import History
from harness.model.manifests import TARGET_PORT
from harness.model.release import Component, Release
from harness.model.topology import THREE_ZONES
from harness.model.workloads import pod_client
from harness.probes.loop import Probe
from harness.run.real_cluster import ClusterSession, boot
from harness.scenario.cluster import Cluster
from harness.settings.options import resolve
from reference.apiserver import status
from reference.apiserver.kinds import FieldError
from reference.apiserver.kinds.pods import Pods
from reference.client import Object
from reference.features import Features
from tests.harness.backends.any_cluster.conftest import RUN_ID, ReplaceableComponents
from tests.harness.backends.any_cluster.foreign_cluster_runs import EVERYTHING, ClusterOwner
from tests.harness.guest.rbac_rules import as_rbac
from tests.reference.limited_users import add_user, revoke


@pytest.fixture(scope="module")
def cluster(netns_allowed: None) -> Iterator[NetnsBackend]:
    """Boot a foreign cluster."""
    with NetnsBackend() as booted, Kubelet(booted.kubeconfig(), booted.network, trust=booted.control_plane.kubelets):
        yield booted


@pytest.fixture
def host(cluster: NetnsBackend, tmp_path: Path) -> ClusterOwner:
    return ClusterOwner(cluster, tmp_path)


def target(host: ClusterOwner, token: str = "", registry: str = REGISTRY) -> ClusterTarget:
    names = match_nodes(THREE_ZONES, host.backend.api.list("nodes"))
    return ClusterTarget(str(host.kubeconfig(token)), "", RUN_ID, names, THREE_ZONES, ALWAYS, registry)


@pytest.fixture
def share(host: ClusterOwner) -> Iterator[Callable[[str], KubeconfigBackend]]:
    """Return a backend that is one worker's share of the cluster, for the user with this token."""
    started: list[KubeconfigBackend] = []

    def start(token: str = "") -> KubeconfigBackend:
        started.append(started_on(target(host, token)))
        return started[-1]

    yield start
    for each in started:
        each.close()


def started_on(there: ClusterTarget) -> KubeconfigBackend:
    return KubeconfigBackend(there, there.plain_api()).start()


class InstantComponents(ReplaceableComponents):
    """Components that are replaced without delay."""

    def __init__(self) -> None: ...

    def start(self, component: Component, release: Release, nodes: Sequence[str]) -> None: ...


def test_an_image_that_cannot_be_pulled_ends_the_run(host: ClusterOwner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_runner, "TROUBLED_SECONDS", 0.2)
    with pytest.raises(DistrustError, match=r"cannot be pulled .*use a registry that the nodes can reach"):
        boot(target(host, registry="registry.invalid").to_json(), resolve({"backend": "kubeconfig"}), "main")
    left = [each["metadata"]["name"] for each in host.backend.api.list("namespaces")]
    assert [name for name in left if name.startswith("td-")] == []


def test_exceeded_quota_makes_the_requirement_inconclusive(
    share: Callable[[], KubeconfigBackend], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded API server has no quotas. The test makes it reject pods with the error of an exceeded quota."""

    def refuse(_: Pods, obj: Object, __: Features) -> list[FieldError]:
        said = "exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1"
        raise status.failure(403, "Forbidden", f'pods "{obj["metadata"]["name"]}" is forbidden: {said}')

    backend = share()
    with History(tmp_path / "history.jsonl") as history:
        scenario = Cluster(backend, f"td-{RUN_ID}-main-1", history=history, test="TEST/test")
        with monkeypatch.context() as patched:
            patched.setattr(Pods, "validate", refuse)
            with pytest.raises(InconclusiveError, match=r"^resource quota few is used up .*: increase the quota"):
                scenario.run_servers(on=["a1", "b1"])
        scenario.close()


def test_pod_without_kubelet_is_not_waited_for(
    share: Callable[[], KubeconfigBackend], host: ClusterOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = share()
    monkeypatch.setattr(backend._pod_runner, "_kubelet_patience", 0.2)
    backend.create_namespace(f"td-{RUN_ID}-main-2")
    with pytest.raises(InconclusiveError, match="the kubelet of node nowhere does not start it"):
        backend.run_pods(f"td-{RUN_ID}-main-2", [WantedPod("lost", "nowhere")])
    backend.delete_namespace(f"td-{RUN_ID}-main-2")


def test_early_end_of_a_terminating_pod_is_inconclusive(
    share: Callable[[], KubeconfigBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig, "TERMINATION_SECONDS", 1)
    backend, namespace = share(), f"td-{RUN_ID}-main-4"
    backend.create_namespace(namespace)
    backend.run_pods(namespace, [WantedPod("leaving", "a1")])
    backend.begin_termination(namespace, "leaving")
    backend.check_instruments()
    eventually(lambda: not backend.api.list("pods", namespace), describe="the pod to end")
    with pytest.raises(InconclusiveError, match=r"terminating pod td-.*/leaving has ended, after at most 30 s"):
        backend.check_instruments()
    backend.delete_namespace(namespace)
    backend.check_instruments()


def test_kubelet_gets_time_to_reconnect_to_a_replaced_api_server(
    host: ClusterOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_runner, "TROUBLED_SECONDS", 0.1)
    monkeypatch.setattr(KindBackend, "_kubelet_patience", 0.7)
    there = target(host)
    backend = KindBackend(there, there.plain_api(), components=InstantComponents()).start()
    backend.start_component(Component.API_SERVER, Release(), [])
    backend.create_namespace(f"td-{RUN_ID}-main-3")
    began = time.monotonic()
    with pytest.raises(InconclusiveError, match="the kubelet of node nowhere does not start it"):
        backend.run_pods(f"td-{RUN_ID}-main-3", [WantedPod("lost", "nowhere")])
    assert time.monotonic() - began > 0.7
    backend.delete_namespace(f"td-{RUN_ID}-main-3")
    backend.close()


def test_missing_permission_for_pods_is_reported_before_the_run(host: ClusterOwner) -> None:
    token = add_user(host.server, "alice", [as_rbac(rule) for rule in RULES if rule.resources != ("pods",)])
    settings = resolve({"backend": "kubeconfig", "kubeconfig": str(host.kubeconfig(token))})
    with pytest.raises(UnavailableError, match=r"user alice may not create pods.*apply deploy/rbac\.yaml"):
        ClusterSession(settings, print).start()
    assert "trafficdist" not in [each["metadata"]["name"] for each in host.backend.api.list("namespaces")]


def test_missing_permission_for_nodes_is_reported_before_a_disruptive_run(host: ClusterOwner) -> None:
    token = add_user(host.server, "alice", [as_rbac(rule) for rule in RULES])
    given = {"backend": "kubeconfig", "kubeconfig": str(host.kubeconfig(token)), "allow-disruptive": True}
    said = r"user alice may not .*patch nodes.*apply deploy/rbac\.yaml"
    with (
        contextlib.closing(ClusterSession(resolve(given), print)) as session,
        pytest.raises(UnavailableError, match=said),
    ):
        session.start()


def test_credentials_that_expire_end_the_run(host: ClusterOwner) -> None:
    token = add_user(host.server, "alice", EVERYTHING)
    ran = host.run(token=token, meanwhile=lambda _: revoke(host.server, token))
    assert (ran.code, ran.verdicts) == (12, ["inconclusive"]), ran.text
    assert "the API server does not accept the credentials (401 Unauthorized): log in again" in ran.text
    assert "then run `trafficdist cleanup`" in ran.text
    assert "the Lease of run" in host.clean_up()
    assert host.changed() == []


def test_lost_api_server_causes_no_failure_and_cleanup_happens_later(host: ClusterOwner) -> None:
    api = host.backend.control_plane._api  # type: ignore[attr-defined]
    back = threading.Timer(2.0, host.server.replace, [api])

    def go_away(_: object) -> None:
        host.server.replace(None)
        back.start()

    ran = host.run(meanwhile=go_away)
    back.join()
    assert (ran.code, ran.verdicts) == (10, ["inconclusive"]), ran.text
    assert "no server listens there (connection refused): is the cluster up" in ran.text
    assert host.changed() == []


def take_away(booted: NetnsBackend, node: str, once: Callable[[], bool] = lambda: True) -> None:
    """Remove the node and drop all packets to it."""
    eventually(once, describe=f"the time for {node} to go away")
    booted.api.delete("nodes", "", node)
    with booted.network.nodes[node].namespace.entered(), IPRoute() as routes:
        for link in routes.get_links():
            routes.link("set", index=link["index"], state="down")


def dials(host: ClusterOwner) -> int:
    """Return the number of recent requests to client pods."""
    return len([each for each in host.server.requests() if each.path.endswith("/dial")])


@pytest.mark.slow
def test_lost_node_is_reported_and_causes_no_failure(tmp_path: Path) -> None:
    with NetnsBackend() as booted, Kubelet(booted.kubeconfig(), booted.network, trust=booted.control_plane.kubelets):
        host = ClusterOwner(booted, tmp_path)

        ran = host.run(meanwhile=lambda _: take_away(booted, "b1"))
        assert ran.code in {10, 12}, ran.text
        assert ran.verdicts == ["inconclusive"]
        assert (
            "node b1 was removed from the cluster: start the run again when the cluster's nodes do not change"
            in ran.text
        )
        assert host.changed() == ["gone: nodes b1"]


@pytest.mark.slow
def test_node_lost_during_probes_is_reported_within_half_a_minute(tmp_path: Path) -> None:
    with NetnsBackend() as booted, Kubelet(booted.kubeconfig(), booted.network, trust=booted.control_plane.kubelets):
        host = ClusterOwner(booted, tmp_path)
        with contextlib.closing(started_on(target(host))) as backend:
            namespace = f"td-{RUN_ID}-main-4"
            backend.create_namespace(namespace)
            [pod] = backend.run_pods(namespace, [WantedPod("web", "a1")])
            ask = Probe(backend.source_of(pod_client("b1")), "TCP", pod.addresses["IPv4"], TARGET_PORT)
            away = threading.Thread(target=take_away, args=(booted, "b1", lambda: dials(host) > 20))
            away.start()
            begin = time.monotonic()
            with pytest.raises(InconclusiveError, match="node b1 is gone"):
                backend.probe([ask] * 100_000)
            assert time.monotonic() - begin < 30
            away.join()


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 2), (signal.SIGTERM, 2), (signal.SIGKILL, -9)])
def test_terminated_run_leaves_nothing(host: ClusterOwner, sign: signal.Signals, code: int, workers: str) -> None:
    def end(process: subprocess.Popen[str]) -> None:
        process.send_signal(sign)

    ran = host.run("--workers", workers, meanwhile=end)
    assert ran.code == code, ran.text
    if sign == signal.SIGKILL:
        assert "the Lease of run" in host.clean_up()
    assert host.changed() == []


@pytest.mark.slow
@pytest.mark.parametrize(("expected", "code", "verdict"), [("b1", 0, "passed"), ("a1", 1, "failed")])
def test_finished_run_leaves_nothing(host: ClusterOwner, expected: str, code: int, verdict: str) -> None:
    ran = host.run("--workers", "2", expected=expected)
    assert (ran.code, ran.verdicts) == (code, [verdict]), ran.text
    assert host.changed() == []
