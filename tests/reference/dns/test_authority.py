"""Tests `ZoneAuthority` with events from an API server in this process, without sockets."""

from __future__ import annotations

import dns.message

from reference.apiserver import ApiServer
from reference.client import Event
from reference.dns.authority import ZoneAuthority
from reference.dns.index import ClusterIndex
from tests.reference.api_server_calls import patched
from tests.reference.dns.dns_cluster import HOST, WITH_KEYS, DnsCluster, at, full, told

A1 = "10.1.0.0"


def test_added_and_removed_keys_split_and_merge_client_groups() -> None:
    cluster, authority = DnsCluster(), ZoneAuthority(ClusterIndex())
    api = cluster.api = ApiServer(WITH_KEYS)

    def apply(event: Event) -> None:
        if event.type != "SYNCED":
            authority.apply(event)

    api.subscribe(["services", "endpointslices", "podlocators"], apply)
    for node, address in (("a1", A1), ("a1", "10.0.0.1"), ("a2", "10.0.0.2")):
        cluster.locate(f"at-{address}", node, address)
    cluster.create_headless("plain")
    cluster.publish("plain", at("10.0.0.1"), at("10.0.0.2"))
    for keys, seen in ((None, ["10.0.0.1", "10.0.0.2"]), ([HOST], ["10.0.0.1"])) * 2:
        patched(api, "services", "default", "plain", {"spec": {"topologyKeys": keys}})
        wire = authority.answer(dns.message.make_query(full("plain"), "A").to_wire(), A1)
        assert wire is not None
        assert sorted(told(dns.message.from_wire(wire))) == seen
