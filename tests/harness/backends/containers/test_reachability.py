"""Tests whether this machine can send packets to a cluster, and the error if it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.backends.containers import reachability
from harness.backends.containers.reachability import choose, is_elsewhere
from harness.errors import UnavailableError
from harness.model.abilities import Ability
from harness.model.cluster_options import AGNHOST

NODE = {"metadata": {"name": "kind-worker"}, "status": {"nodeInfo": {"bootID": "boot-1"}}}
NAMES = {"a1": "kind-worker"}


def test_node_with_the_same_boot_id_may_be_local(tmp_path: Path) -> None:
    (tmp_path / "boot").write_text("boot-1\n")
    assert not is_elsewhere(NODE, tmp_path / "boot")
    (tmp_path / "boot").write_text("boot-2\n")
    assert is_elsewhere(NODE, tmp_path / "boot") == "node kind-worker is on another machine or in a virtual machine"
    assert is_elsewhere(NODE, tmp_path / "no-such-file")  # as on a machine without Linux


def test_remote_cluster_is_probed_with_agnhost_and_the_reason_is_given() -> None:
    found = choose("", [NODE], NAMES)
    assert found.probes == AGNHOST
    assert str(found).endswith("API server: node kind-worker is on another machine or in a virtual machine")
    assert not found.abilities


def test_impossible_packets_end_the_run() -> None:
    with pytest.raises(UnavailableError, match="`probes: packets` is not possible: node kind-worker is on another"):
        choose("packets", [NODE], NAMES)


def test_ordinary_user_probes_with_agnhost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "is_elsewhere", lambda _: "")
    monkeypatch.setattr(reachability.sandbox, "able", lambda: False)
    assert choose("", [NODE], NAMES).why == "an ordinary user may not enter the networks of containers; run as root"


def test_agnhost_can_be_required_on_any_cluster() -> None:
    assert choose(AGNHOST, [], {}).why == "as set by option probes"


def test_packets_add_abilities() -> None:
    assert {Ability.OPEN_CONNECTIONS, Ability.LOAD_BALANCER} <= reachability.ProbeMethod("packets", "").abilities
