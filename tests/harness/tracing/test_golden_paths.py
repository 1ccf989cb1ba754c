"""Tests that the path of a misrouted packet names the faulty rule, for data plane mutants and for two kube-proxy modes.

A mutant that decides wrongly has no faulty rule. Its path shows the chain and the set element of the decision, and the
expected decision with its reason. `NOT_TOLD` lists the data plane mutants without a faulty rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.backends.implementation import reference
from harness.errors import UnavailableError
from harness.model.manifests import TCP, UDP, Port
from harness.scenario.measuring import measure
from harness.scenario.paths import PacketPath
from harness.scenario.service import AddressKind, Service
from harness.scenario.service_address import ClientRef, service_address
from harness.settings.implementations import of_settings
from harness.settings.options import resolve
from harness.tracing.messages import TRACE_TABLE
from harness.tracing.tracer import rules_in
from mutants import MUTANTS, data_planes
from tests.harness.tracing.scenarios import paths, scenario
from trafficdist import TIMED_OUT, Cluster, Pod, endpoint, external_client, node_client


@dataclass(frozen=True)
class TracedFault:
    """A fault: the client, the address of the Service, and a pattern for the faulty rule in the path."""

    mutant: str
    says: str
    client: ClientRef = "a1"
    to: AddressKind = "cluster-ip"
    port: Port = TCP
    family: str = "IPv4"
    on: str = "b1"
    spec: Mapping[str, Any] = field(default_factory=dict)


FAULTS = [
    TracedFault("nothing-moves", r"prerouting: no rule matches.*@services has no 10\.96\.1\.1 \. tcp \. 80\n"),
    TracedFault("no-udp", r"prerouting: no rule matches.*@services has no 10\.96\.1\.1 \. udp \. 80\n", port=UDP),
    TracedFault("no-ipv6", r"ip6 trafficdist prerouting: no rule.*@services has no fd00\S+ \. tcp \. 80\n",
                family="IPv6"),
    TracedFault(
        "no-load-balancer-addresses", r"prerouting: no rule matches.*@services has no \S+ \. tcp \. 80\n",
        client=external_client("a1"), to="load-balancer", spec={"type": "LoadBalancer"},
    ),
    TracedFault(
        "no-external-ips", r"prerouting: no rule matches.*@services has no \S+ \. tcp \. 80\n",
        client=external_client("a1"), to="external-ip", spec={"external_ips": True},
    ),
    TracedFault(
        "node-port-beside-endpoints-only", r"prerouting: no rule matches.*@services has no \S+ \. tcp \. 30\d+\n",
        client=external_client("a1"), to="node-port", spec={"type": "NodePort"},
    ),
    TracedFault(
        "passes-clients-on-the-node-by", r"ip trafficdist output: the chain has no rules; policy accept",
        client=node_client("a1"),
    ),
    TracedFault(
        "no-hairpin-masquerade",
        r"masquerading: ip saddr @own return\n +no match: .*@hairpin has no a1 \(\S+\) \. a1 \(\S+\)\n",
        client="itself", on="a1",
    ),
    TracedFault(
        "pods-of-other-nodes-keep-their-address", r"ip trafficdist masquerading: ip saddr @pods return\n",
        client="via b1", to="node-port", on="a1", spec={"type": "NodePort"},
    ),
    TracedFault(
        "external-local-falls-back", r"@services has \S+ \. tcp \. 30\d+ : 0x00000001\n.*as \S+ → b1",
        client=external_client("a1"), to="node-port",
        spec={"type": "NodePort", "external_traffic_policy": "Local"},
    ),
    TracedFault(
        "external-ips-ignore-local",
        r"@external has no (\S+ \. tcp \. 80)\n +@services has \1 : 0x00000001\n.*as \S+ → b1",
        client=external_client("a1"), to="external-ip",
        spec={"type": "NodePort", "external_ips": True, "external_traffic_policy": "Local"},
    ),
]  # fmt: skip

GONE = "its fault is over when a probe is repeated"
NOT_TOLD = {
    "always-masquerades": "it is wrong in no window: the server sees another address of the client",
    "leaves-udp-flows": "a probe is no flow of before the change",
    "cuts-open-connections": "a probe is no connection of before the change",
    "forgets-before-it-learns": GONE,
    "forgets-for-200-ms": GONE,
    "forgets-for-a-second": GONE,
    "udp-forgets-before-it-learns": GONE,
    "caches-changes": GONE,
    "reads-tables-of-other-programs": "it fails before it writes rules",
}
"""Data plane mutants for which no path can name a rule, and why."""


def test_each_data_plane_mutant_shows_its_rule_or_has_a_reason() -> None:
    told = {each.mutant for each in FAULTS}
    assert not told & NOT_TOLD.keys()
    assert told | NOT_TOLD.keys() == {each.name for each in data_planes.MUTANTS}


def way(cluster: Cluster, service: Service, fault: TracedFault, pod: Pod) -> PacketPath:
    """Return the path of the failing probe. A timeout is the right outcome if no pod may answer."""
    via, client = (None, fault.client) if fault.client != "via b1" else ("b1", "a1")
    target = service_address(cluster, service, to=fault.to, family=fault.family, port=fault.port, via=via)
    silent = "external_traffic_policy" in fault.spec
    return target.path(pod if client == "itself" else client, TIMED_OUT if silent else frozenset({pod.name}))


def path_of(cluster: Cluster, way: PacketPath) -> str:
    """Record a failed window for this address. Return the packet path from the evidence."""
    cluster.settle()
    with pytest.raises(AssertionError):
        measure(cluster, "a window", [way])
    (found,) = paths(cluster).values()
    return found


@pytest.mark.parametrize("fault", FAULTS, ids=[each.mutant for each in FAULTS])
def test_rule_at_fault_is_named(tmp_path: Path, fault: TracedFault) -> None:
    with scenario(tmp_path, reference(MUTANTS[fault.mutant])) as (cluster, backend):
        service = cluster.create_service(ports=[fault.port], dual_stack=True, **fault.spec)
        (pod,) = cluster.run_servers(on=[fault.on])
        cluster.publish(service, [endpoint(pod)])
        said = path_of(cluster, way(cluster, service, fault, pod))
        assert re.search(fault.says, said, re.DOTALL), said
        assert "had the same outcome as in the window; this is its path" in said
        left = {table for node in backend.network.nodes.values() for table, _, _ in rules_in(node.namespace)}
        assert f"inet {TRACE_TABLE}" not in left


def test_wrong_decision_shows_its_element_and_the_expected_decision(tmp_path: Path) -> None:
    with scenario(tmp_path, reference(MUTANTS["ignores-zone-hints"])) as (cluster, _):
        service = cluster.create_service(traffic_distribution="PreferClose")
        a1, b1 = cluster.run_servers(on=["a1", "b1"])
        cluster.publish(service, [endpoint(a1, zones=["a"]), endpoint(b1, zones=["b"])])
        said = path_of(cluster, service_address(cluster, service).path("a1", frozenset({"a1"})))
    assert re.search(r"@endpoints has 10\.96\.1\.1 \. tcp \. 80 \. \S+ : b1 \(\S+\) \. 8080\n", said), said
    assert re.search(r"\na1 +a +80/TCP IPv4 +zone +1 +0 ", said), said
    assert "no endpoint was chosen by hints" not in said


CHOSEN = {
    "nftables": r"ip kube-proxy (service|endpoint)-\S+: meta l4proto tcp dnat (ip )?to \S+:8080 → accept\n",
    "iptables": r"ip nat KUBE-SEP-\w+: -A KUBE-SEP-\w+ -p tcp .* -j DNAT --to-destination \S+:8080",
}


@pytest.mark.parametrize("mode", CHOSEN)
def test_rules_of_kube_proxy_have_their_own_comments(tmp_path: Path, mode: str) -> None:
    try:
        implementation = of_settings(resolve({"proxy": "kube-proxy", "mode": mode}, environment={}))
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")
    with scenario(tmp_path, implementation) as (cluster, _):
        service = cluster.create_service()
        (b1,) = cluster.run_servers(on=["b1"])
        cluster.publish(service, [endpoint(b1)])
        said = path_of(cluster, service_address(cluster, service).path("a1", frozenset({"a1"})))
    assert re.search(CHOSEN[mode], said), said
    assert re.search(r"it leaves node a1 over eth0 as \S+ → b1 \(\S+:8080\): destination translated\n", said)
    assert "kube-proxy-a1.log since the window began:" in said
