"""Tests that tests of leftovers see each network namespace that a process is in or keeps open."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.netns.namespace import Namespace
from tests.harness.hostile_programs import network_namespaces


def test_netns_of_a_process_and_its_descriptors_is_found_until_it_ends(netns_allowed: None) -> None:
    own = network_namespaces([Path("/proc/self")])
    with Namespace.create() as entered, Namespace.create() as kept:
        with entered.entered(), subprocess.Popen(["sleep", "600"], pass_fds=[kept.fd]) as process:
            found = network_namespaces([Path("/proc", str(process.pid))]) - own
            process.kill()
        assert len(found) == 2
        assert found <= network_namespaces([Path("/proc/self")])
    assert not found & network_namespaces(Path("/proc").glob("[0-9]*"))
