"""Tests that the matching rules of iptables-legacy are found by their counters."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from harness.model.outcomes import REFUSED, Observation
from harness.netns import programs, rtnetlink
from harness.netns.namespace import Namespace
from harness.netns.process import search_path
from harness.probes.probe import Probe
from harness.tracing.counters import counted, risen
from harness.tracing.follower import follow
from harness.tracing.path import path
from harness.tracing.rules import Rules

BEFORE = """\
# Generated
*filter
:FORWARD ACCEPT [3:180]
[2:120] -A FORWARD -j KUBE-FORWARD
COMMIT
*nat
:OUTPUT ACCEPT [1:60]
[4:240] -A OUTPUT -j KUBE-SERVICES
[0:0] -A KUBE-SERVICES -d 10.96.1.9/32 -j KUBE-SVC-B
[1:60] -A KUBE-SERVICES -d 10.96.1.1/32 -j KUBE-SVC-A
COMMIT
"""
SERVICES = "-A OUTPUT -j KUBE-SERVICES"
TO_A = "-A KUBE-SERVICES -d 10.96.1.1/32 -j KUBE-SVC-A"


def test_rules_with_increased_counters_are_shown_by_table_in_order() -> None:
    after = BEFORE.replace("[4:", "[5:").replace("[1:60] -A", "[2:120] -A").replace("[2:120] -A F", "[9:540] -A F")
    forward = "-A FORWARD -j KUBE-FORWARD"
    assert risen(BEFORE, after) == [("nat", SERVICES), ("nat", TO_A), ("filter", forward)]
    assert risen(BEFORE, BEFORE) == []


def test_path_identifies_rules_by_their_counters(tmp_path: Path) -> None:
    if shutil.which("iptables-legacy", path=search_path()) is None:
        pytest.skip("iptables-legacy is not on this machine")
    rule = ["-d", "127.0.0.9/32", "-p", "tcp", "-m", "tcp", "--dport", "80", "-j", "DNAT", "--to-destination"]
    with Namespace.create() as namespace:
        rtnetlink.execute(namespace, [rtnetlink.up(rtnetlink.LOOPBACK)])
        assert counted(namespace, six=False) == ""
        made = programs.run(namespace, ["iptables-legacy", "-t", "nat", "-A", "OUTPUT", *rule, "127.0.0.1:9"])
        if made.returncode:
            pytest.skip(f"this kernel has no iptables-legacy: {made.stderr}")

        def ask(probe: Probe) -> Observation:
            with namespace.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
                assert sock.connect_ex((probe.address, probe.port))
            return REFUSED

        probe = Probe(namespace, "TCP", "127.0.0.9", 80)
        found = follow(probe, namespace, {"node a1": namespace}, ask=ask, is_same=lambda seen: seen == REFUSED)
    lines = path(found, Rules(), client="node a1", node="a1", names={})
    assert lines[1] == f"  2. iptables nat: -A OUTPUT {' '.join(rule)} 127.0.0.1:9 (its counter increased)"
    assert lines[2].endswith("→ 127.0.0.1:9: destination translated")
