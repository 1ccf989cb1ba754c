"""KEP-4444, Monitoring Requirements: the time of a proxy's last sync.

"An unusually old timestamp may signal a problem with kube-proxy's ability to update routing rules". So the time
advances with each sync, and with nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest

from conformance.features import CLUSTER_IP, PROXY_METRICS
from conformance.other_programs import OtherProgram, owner_of_all_tables
from trafficdist import (
    MUST,
    PROXY,
    SHOULD,
    Cluster,
    IneligibleError,
    Pod,
    Service,
    endpoint,
    expect_eventually,
    expect_traffic,
    requirement,
)

SYNCED_AT = "kubeproxy_sync_proxy_rules_last_timestamp_seconds"
AGED = 1.0  # minimum time since the last sync, in seconds
ATTEMPTS = (  # each counts failed syncs, and the last one may count all
    "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
    "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
    "kubeproxy_sync_proxy_rules_duration_seconds_count",
)


@requirement(
    "KEP-4444/proxy-tells-when-it-synced",
    "The metric kubeproxy_sync_proxy_rules_last_timestamp_seconds is the time when rules last changed: it advances on "
    "each node with each change of rules.",
    level=MUST,
    features={CLUSTER_IP, PROXY_METRICS},
    source="KEP-4444, Monitoring Requirements",
    kills={"proxy-metrics-never-change", "timestamps-in-milliseconds"},
)
def test_time_of_the_last_sync_moves_on(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1), endpoint(b1)])
    expect_traffic(three_zones, service, {"a1": {a1, b1}, "c1": {a1, b1}})

    for change in ([endpoint(a1)], [endpoint(b1)]):
        before = {node: _last_sync(three_zones, node) for node in ("a1", "c1")}
        three_zones.publish(service, change)
        for node, then in before.items():
            _expect_synced_since(three_zones, node, then)


def _expect_synced_since(cluster: Cluster, node: str, then: float) -> None:
    expect_eventually(
        cluster,
        f"metric {SYNCED_AT} of the proxy on {node} has moved on, and is in the last minute",
        lambda: then < _last_sync(cluster, node) and abs(time.time() - _last_sync(cluster, node)) < 60,
        expected=True,
        explain=lambda: f"then {then}, now {_last_sync(cluster, node)}",
    )


@requirement(
    "KEP-4444/last-sync-grows-old",
    "The metric kubeproxy_sync_proxy_rules_last_timestamp_seconds does not change while nothing is synced: it is the "
    "time of the last sync, not the time when the metric is read.",
    level=SHOULD,
    features={CLUSTER_IP, PROXY_METRICS},
    source="KEP-4444, Monitoring Requirements",
    kills={"last-sync-is-now"},
)
def test_time_of_the_last_sync_grows_old(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])
    expect_traffic(three_zones, service, {"a1": {a1}})

    seen = [_last_sync(three_zones, "a1")]
    expect_eventually(
        three_zones,
        f"metric {SYNCED_AT} of the proxy on a1 is as it was, {AGED:g} s and more after it was written",
        lambda: _is_aged(three_zones, seen),
        expected=True,
        explain=lambda: f"seen one after the other: {seen}",
    )


def _is_aged(cluster: Cluster, seen: list[float]) -> bool:
    """Return whether the gauge on a1 is unchanged since the last reading and its time is over `AGED` seconds ago.

    A proxy may sync periodically, so one interval without a sync suffices.
    """
    seen.append(_last_sync(cluster, "a1"))
    return seen[-1] == seen[-2] and time.time() - seen[-1] > AGED


@pytest.mark.takes(6)
@requirement(
    "KEP-4444/refused-rules-are-no-sync",
    "The metric kubeproxy_sync_proxy_rules_last_timestamp_seconds does not change while the kernel refuses the rules "
    "of the proxy, because another program owns its tables; when the program ends, the metric advances, and the proxy "
    "routes traffic again.",
    level=SHOULD,
    features={CLUSTER_IP, PROXY_METRICS},
    source="KEP-4444, Monitoring Requirements (an old timestamp may signal a problem)",
    kills={"refused-rules-count-as-synced"},
    fixes={"components=disconnected": "the proxy must receive changes while it cannot write rules"},
)
def test_refused_rules_are_no_sync(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    expect_traffic(three_zones, service, {"a1": {a1}})
    if not _attempts(three_zones):
        raise IneligibleError(f"the proxy on a1 has none of the metrics {', '.join(ATTEMPTS)}")

    with owner_of_all_tables(three_zones, "a1") as owner:
        # During the first round, a sync that began earlier may end, and the program takes tables with new names.
        for _ in range(2):
            before = _last_syncs(three_zones)
            families = _refuse(three_zones, owner, service, [b1, a1])
        after = _last_syncs(three_zones)
        names = owner.take_tables()
        moved = sorted(family for family in families if after.get(family) != before.get(family))
        three_zones.expect_equal(
            f"IP families for which metric {SYNCED_AT} of the proxy on a1 has changed, though the kernel refused rules",
            expected=[],
            observed=moved,
            explanation=f"before two refusals {before}, after them {after}",
            unknown=f"the kernel accepted tables with other names: {names}" if moved and names else "",
        )
        owner.close()
        three_zones.publish(service, [endpoint(b1)])
        _expect_synced_since(three_zones, "a1", max(after.values()))
        expect_traffic(three_zones, service, {"a1": {b1}})


def _refuse(cluster: Cluster, owner: OtherProgram, service: Service, pods: Sequence[Pod]) -> set[str]:
    """Publish each pod as the only endpoint, and wait until the kernel has refused the rules of the proxy on a1.

    Return the IP families whose rules were refused each time, or {""} if the metrics have no label ip_family.
    """
    before = _attempts(cluster)
    for least, pod in enumerate(pods, 1):
        owner.take_tables()
        cluster.publish(service, [endpoint(pod)])
        _expect_attempts(cluster, before, least)
    return _families(cluster, before, len(pods))


def _expect_attempts(cluster: Cluster, before: Mapping[tuple[str, str], float], least: int) -> None:
    expect_eventually(
        cluster,
        "the proxy on a1 has tried to write rules that the kernel refuses",
        lambda: bool(_families(cluster, before, least)),
        expected=True,
        unless=lambda: "its metrics count no attempt",
        settled=False,
    )


def _families(cluster: Cluster, before: Mapping[tuple[str, str], float], least: int) -> set[str]:
    """Return the IP families for which one of the metrics has counted at least `least` attempts since `before`."""
    grown = {key: count - before.get(key, 0.0) for key, count in _attempts(cluster).items()}
    return {family for (_, family), count in grown.items() if count >= least}


def _attempts(cluster: Cluster) -> dict[tuple[str, str], float]:
    """Return the number of syncs that have ended on a1, by metric and IP family."""
    samples = cluster.metrics(PROXY, "a1").samples
    return {(each.name, each.labels.get("ip_family", "")): each.value for each in samples if each.name in ATTEMPTS}


def _last_syncs(cluster: Cluster) -> dict[str, float]:
    samples = cluster.metrics(PROXY, "a1").samples
    return {each.labels.get("ip_family", ""): each.value for each in samples if each.name == SYNCED_AT}


def _last_sync(cluster: Cluster, node: str) -> float:
    return max(cluster.metrics(PROXY, node).values(SYNCED_AT), default=0.0)
