"""Tests that kube-proxy with one version and mode has the same verdicts on the embedded cluster and on kind.

On kind, the probes are real packets or agnhost requests. `KIND_ID` selects requirements. The default is a selection of
fifteen, and `*` selects the whole profile.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.binaries import find
from harness.errors import UnavailableError
from tests.harness.backends.compare_verdicts import unlike, verdicts

SAMPLE = (
    "AFFINITY/clients-are-spread",
    "CHANGES/a-slice-of-another-service",  # kube-proxy fails this requirement
    "CHANGES/type-of-a-service",
    "HEALTH/check-node-port-counts-local-endpoints",
    "INTERACTIONS/cluster-ip-hints",
    "KEP-1669/last-endpoint-is-replaced-without-loss",
    "KEP-2086/local-without-endpoints-drops",
    "KEP-3015/node-then-zone-then-anywhere",
    "KEP-4444/each-ip-family-is-judged-on-its-own",
    "KEP-4444/external-local-with-hints",
    "KEP-4444/policy-table-at-load-balancer-addresses",
    "KEP-4444/relabelled-node-uses-its-new-zone",
    "SERVICE/dual-stack-cluster-ips",
    "SERVICE/external-ips",
    "SERVICE/udp-flow-leaves-a-removed-endpoint",
)
CHOSEN = [f"--run-test={each}" for each in os.environ.get("KIND_ID", "").split() or SAMPLE]
CLAIMS = ["--profile=service-proxy", "--follow=released"]


@pytest.fixture
def version(node_image: str) -> str:
    """Return the version of a node image whose kube-proxy is also available as a binary."""
    found = node_image.rpartition(":v")[2]
    try:
        find("kube-proxy", found)
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")
    return found


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("mode", "families"), [("iptables", "IPv4"), ("nftables", "IPv4,IPv6")], ids=["iptables", "nftables-dual-stack"]
)
def test_verdicts_are_the_same(node_image: str, version: str, mode: str, families: str, tmp_path: Path) -> None:
    same = [*CLAIMS, f"--mode={mode}", f"--families={families}"]
    on_kind = [*same, *CHOSEN, "-n0", "--backend=kind", f"--kind-image={node_image}"]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRAFFICDIST_PROBES", "packets")
        packets = verdicts(tmp_path / "packets", *on_kind)
        environment.setenv("TRAFFICDIST_PROBES", "agnhost")
        agnhost = verdicts(tmp_path / "agnhost", *on_kind)
    same += [f"--proxy=kube-proxy:{version}", "-n2"]
    here = verdicts(tmp_path / "netns", *same, *[f"--run-test={each}" for each in packets])
    assert packets
    assert agnhost.keys() <= packets.keys() == here.keys()
    assert unlike(packets, here) == {}
    assert unlike(agnhost, {each: packets[each] for each in agnhost}) == {}
