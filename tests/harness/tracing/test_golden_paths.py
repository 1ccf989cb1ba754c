"""The path of a wrong packet names the rule at fault: of mutants of the data plane, and of kube-proxy in both modes.

Not told by a rule are mutants that decide wrong: there the path shows the chain and the element that the decision
became, and beside it what was to be decided and why. Nor those whose fault is over when a probe is repeated (rules that
are away for a moment, flows that are not forgotten), and those that are wrong in no window (the client's address).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import TIMED_OUT, Cluster, Pod, endpoint, external_client, node_client
from harness.backends.implementation import Implementation, reference
from harness.backends.netns import NetnsBackend
from harness.errors import UnavailableError
from harness.judging.history import History
from harness.model.manifests import TCP, UDP, Port
from harness.model.topology import grid
from harness.scenario.paths import Path as Way
from harness.scenario.paths import Who, target_of
from harness.scenario.service import AddressKind, Service
from harness.scenario.traffic import measure
from harness.settings.implementations import of_settings
from harness.settings.options import resolve
from harness.tracing import own_table
from harness.tracing.tracer import rules_in
from mutants import MUTANTS


@dataclass(frozen=True)
class Fault:
    """Who asks for which address of a Service, and what the path says of the rule at fault (a pattern)."""

    mutant: str
    says: str
    client: Who = "a1"
    to: AddressKind = "cluster-ip"
    port: Port = TCP
    family: str = "IPv4"
    on: str = "b1"
    spec: Mapping[str, Any] = field(default_factory=dict)


FAULTS = [
    Fault("nothing-moves", r"prerouting: no rule takes it.*@services has no 10\.96\.1\.1 \. tcp \. 80\n"),
    Fault("no-udp", r"prerouting: no rule takes it.*@services has no 10\.96\.1\.1 \. udp \. 80\n", port=UDP),
    Fault("no-ipv6", r"ip6 trafficdist prerouting: no rule.*@services has no fd00\S+ \. tcp \. 80\n", family="IPv6"),
    Fault(
        "no-load-balancer-addresses", r"prerouting: no rule takes it.*@services has no \S+ \. tcp \. 80\n",
        client=external_client("a1"), to="load-balancer", spec={"type": "LoadBalancer"},
    ),
    Fault(
        "no-external-ips", r"prerouting: no rule takes it.*@services has no \S+ \. tcp \. 80\n",
        client=external_client("a1"), to="external-ip", spec={"external_ips": True},
    ),
    Fault(
        "node-port-beside-endpoints-only", r"prerouting: no rule takes it.*@services has no \S+ \. tcp \. 30\d+\n",
        client=external_client("a1"), to="node-port", spec={"type": "NodePort"},
    ),
    Fault(
        "passes-clients-on-the-node-by", r"ip trafficdist output: the chain has no rules; policy accept",
        client=node_client("a1"),
    ),
    Fault(
        "no-hairpin-masquerade",
        r"masquerading: ip saddr @own return\n +passed over: .*@hairpin has no a1 \(\S+\) \. a1 \(\S+\)\n",
        client="itself", on="a1",
    ),
    Fault(
        "pods-of-other-nodes-keep-their-address", r"ip trafficdist masquerading: ip saddr @pods return\n",
        client="via b1", to="node-port", on="a1", spec={"type": "NodePort"},
    ),
    Fault(
        "external-local-falls-back", r"@services has \S+ \. tcp \. 30\d+ : 0x00000001\n.*as \S+ → b1",
        client=external_client("a1"), to="node-port",
        spec={"type": "NodePort", "external_traffic_policy": "Local"},
    ),
]  # fmt: skip


@contextmanager
def scenario(folder: Path, implementation: Implementation) -> Iterator[tuple[Cluster, NetnsBackend]]:
    backend = NetnsBackend(grid("two", {"a": 1, "b": 1}), families=("IPv4", "IPv6"), implementation=implementation)
    with backend, History(folder / "history") as history:
        cluster = Cluster(backend, "td-1", history=history, test="t")
        yield cluster, backend
        cluster.close()


def way(cluster: Cluster, service: Service, fault: Fault, pod: Pod) -> Way:
    """The path that is to fail: silence is right where nobody may answer."""
    via, client = (None, fault.client) if fault.client != "via b1" else ("b1", "a1")
    target = target_of(cluster, service, to=fault.to, family=fault.family, port=fault.port, via=via)
    silent = "external_traffic_policy" in fault.spec
    return target.path(pod if client == "itself" else client, TIMED_OUT if silent else frozenset({pod.name}))


def paths(cluster: Cluster) -> dict[str, str]:
    return {name: text for name, text in cluster.evidence() if name.startswith("path-") and isinstance(text, str)}


def path_of(cluster: Cluster, way: Way) -> str:
    """Fail a window along this path, and return what the evidence says of it."""
    cluster.settle()
    with pytest.raises(AssertionError):
        measure(cluster, "a window", [way])
    (found,) = paths(cluster).values()
    return found


@pytest.mark.parametrize("fault", FAULTS, ids=[each.mutant for each in FAULTS])
def test_rule_at_fault_is_named(tmp_path: Path, fault: Fault) -> None:
    with scenario(tmp_path, reference(MUTANTS[fault.mutant])) as (cluster, backend):
        service = cluster.create_service(ports=[fault.port], dual_stack=True, **fault.spec)
        (pod,) = cluster.run_servers(on=[fault.on])
        cluster.publish(service, [endpoint(pod)])
        said = path_of(cluster, way(cluster, service, fault, pod))
        assert re.search(fault.says, said, re.DOTALL), said
        assert "saw the same as in the window, and this is its path" in said
        left = {table for node in backend.network.nodes.values() for table, _, _ in rules_in(node.namespace)}
        assert own_table.NAME not in left


def test_wrong_decision_is_told_by_its_element_and_what_was_to_be_decided(tmp_path: Path) -> None:
    with scenario(tmp_path, reference(MUTANTS["ignores-zone-hints"])) as (cluster, _):
        service = cluster.create_service(traffic_distribution="PreferClose")
        a1, b1 = cluster.run_servers(on=["a1", "b1"])
        cluster.publish(service, [endpoint(a1, zones=["a"]), endpoint(b1, zones=["b"])])
        said = path_of(cluster, target_of(cluster, service).path("a1", frozenset({"a1"})))
    assert re.search(r"@endpoints has 10\.96\.1\.1 \. tcp \. 80 \. \S+ : b1 \(\S+\) \. 8080\n", said), said
    assert re.search(r"\na1 +a +80/TCP IPv4 +zone +1 +0 ", said), said
    assert "no endpoint was chosen by hints" not in said


CHOSEN = {
    "nftables": r"ip kube-proxy service-\S+: meta l4proto tcp dnat (ip )?to \S+:8080 → accept\n",
    "iptables": r"ip nat KUBE-SEP-\w+: -A KUBE-SEP-\w+ -p tcp .* -j DNAT --to-destination \S+:8080",
}


@pytest.mark.parametrize("mode", CHOSEN)
def test_kube_proxy_has_its_rules_named_in_its_own_words(tmp_path: Path, mode: str) -> None:
    try:
        implementation = of_settings(resolve({"proxy": "kube-proxy", "mode": mode}, environment={}))
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")
    with scenario(tmp_path, implementation) as (cluster, _):
        service = cluster.create_service()
        (b1,) = cluster.run_servers(on=["b1"])
        cluster.publish(service, [endpoint(b1)])
        said = path_of(cluster, target_of(cluster, service).path("a1", frozenset({"a1"})))
    assert re.search(CHOSEN[mode], said), said
    assert re.search(r"it leaves node a1 over eth0 as \S+ → b1 \(\S+:8080\): the destination translated\n", said)
    assert "kube-proxy-a1.log since the window began:" in said


def served(cluster: Cluster, *on: str) -> tuple[Service, list[Pod]]:
    """A Service with a pod on each of these nodes."""
    service = cluster.create_service()
    pods = cluster.run_servers(on=on)
    cluster.publish(service, [endpoint(pod) for pod in pods])
    cluster.settle()
    return service, pods


def test_each_failed_window_has_its_path_and_one_that_passed_has_none(tmp_path: Path) -> None:
    with scenario(tmp_path, reference()) as (cluster, _):
        service, _pods = served(cluster, "b1")
        asks = target_of(cluster, service).path
        measure(cluster, "right", [asks("a1", frozenset({"b1"}))])
        assert paths(cluster) == {}
        for label in ("a1", node_client("a1"), "a1"):
            with pytest.raises(AssertionError):
                measure(cluster, "wrong", [asks("b1", frozenset({"b1"})), asks(label, frozenset({"a1"}))])
        assert list(paths(cluster)) == ["path-a1.txt", "path-node-a1.txt", "path-a1-2.txt"]


def test_what_is_not_seen_again_is_said_not_to_be(tmp_path: Path) -> None:
    with scenario(tmp_path, reference()) as (cluster, _):
        service, (a1, _b1) = served(cluster, "a1", "b1")
        with pytest.raises(AssertionError):
            measure(cluster, "wrong", [target_of(cluster, service).path("a1", frozenset({"a1"}))])
        cluster.publish(service, [endpoint(a1)])
        cluster.settle()
        said = paths(cluster)["path-a1.txt"]
    assert re.search(r"Asked 50 times more, .*: what was seen in the window was not seen again", said), said
    assert re.search(r"\n *\d+\. a1 answers\n", said), said


def test_client_that_missed_an_endpoint_has_the_path_of_any_packet(tmp_path: Path) -> None:
    with scenario(tmp_path, reference()) as (cluster, _):
        service, _pods = served(cluster, "b1")
        with pytest.raises(AssertionError):
            measure(cluster, "missed", [target_of(cluster, service).path("a1", frozenset({"a1", "b1"}))])
        assert (
            "once more, after the window, with the trace of node a1 on: no single packet was wrong"
            in paths(cluster)["path-a1.txt"]
        )


def test_cluster_that_cannot_trace_says_so_and_tells_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise UnavailableError("there is no trace here")

    with scenario(tmp_path, reference()) as (cluster, _):
        service, _pods = served(cluster, "b1")
        with pytest.raises(AssertionError):
            measure(cluster, "wrong", [target_of(cluster, service).path("a1", frozenset({"a1"}))])
        monkeypatch.setattr(NetnsBackend, "follow", refused)
        said = paths(cluster)["path-a1.txt"]
    assert "Missing here: the way of the packet: there is no trace here" in said
    assert "What its objects ask for, and why:" in said


def test_kernel_without_trace_leaves_the_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise UnavailableError("the kernel traces no packets here")

    with scenario(tmp_path, reference()) as (cluster, _):
        service, _pods = served(cluster, "b1")
        with pytest.raises(AssertionError):
            measure(cluster, "wrong", [target_of(cluster, service).path("a1", frozenset({"a1"}))])
        monkeypatch.setattr("harness.tracing.follower.tracing", refused)
        said = paths(cluster)["path-a1.txt"]
    assert "Missing here: the kernel traces no packets here" in said
    assert re.search(r"1\. client a1 sends 10\S+ → 10\.96\.1\.1:80, tcp", said), said
    assert re.search(r"server b1, in over eth0: \S+ → b1 \(\S+:8080\) tcp SYN\n", said), said


def test_windows_for_which_there_is_no_time_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.scenario.wrong_packets.SECONDS", -1.0)
    with scenario(tmp_path, reference()) as (cluster, _):
        service, _pods = served(cluster, "b1")
        with pytest.raises(AssertionError):
            measure(cluster, "wrong", [target_of(cluster, service).path("a1", frozenset({"a1"}))])
        assert paths(cluster)["path-a1.txt"].endswith("not followed: other windows took -1 s\n")
