"""Tests that the netns of a container or a pod is found through its processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.backends.containers.engine import ContainerEngine
from harness.backends.containers.netns_lookup import holds, netns_of, pod_of, processes_of
from harness.errors import UnavailableError
from harness.netns import process, rtnetlink
from harness.netns.namespace import Namespace

UID = "0f5c8a34-7d6e-4d0b-9a01-3f6f2d7c1b5e"


@pytest.fixture
def place(netns_allowed: None) -> Iterator[Namespace]:
    with Namespace.create() as made:
        rtnetlink.execute(made, [rtnetlink.up(1), *rtnetlink.address(1, "198.51.100.7")])
        yield made


@pytest.mark.parametrize(
    "path",
    [
        f"/docker/4a1/kubelet/kubepods/besteffort/pod{UID}/9b2",
        f"/kubelet.slice/kubelet-kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-9b2.scope",
    ],
    ids=["cgroupfs", "systemd"],
)
def test_control_group_names_the_pod_of_a_process(path: str) -> None:
    assert pod_of(f"12:pids:{path}\n0::/\n") == UID


def test_process_of_a_node_has_no_pod() -> None:
    assert not pod_of("0::/docker/4a1/system.slice/containerd.service\n")


def test_pods_are_found_except_host_network_ones(tmp_path: Path) -> None:
    for pid, group in {"7": f"0::/pod{UID}/1", "8": f"0::/pod{UID[:-1]}0/1", "9": "0::/user.slice"}.items():
        (tmp_path / pid / "ns").mkdir(parents=True)
        (tmp_path / pid / "ns/net").touch()
        (tmp_path / pid / "cgroup").write_text(group)
    assert processes_of([UID], proc=tmp_path) == {UID: tmp_path / "7"}
    of_node = (tmp_path / "7/ns/net").stat().st_ino
    assert processes_of([UID], without=[of_node], proc=tmp_path) == {}


def test_netns_has_only_its_own_addresses(place: Namespace) -> None:
    assert holds(place, "198.51.100.7")
    assert not holds(place, "198.51.100.8")


def engine_that_says(folder: Path, said: str) -> ContainerEngine:
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\necho {said}\n")
    program.chmod(0o755)
    return ContainerEngine("docker", str(program))


def test_container_netns_is_that_of_its_process(place: Namespace, tmp_path: Path) -> None:
    waits = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read(); import time; time.sleep(60)"]
    running = process.start("container", waits, log=tmp_path / "log", namespace=place)
    with netns_of(engine_that_says(tmp_path, str(running.pid)), "node") as found:
        assert found.inode == place.inode
    running.stop(grace=0)


@pytest.mark.parametrize(("said", "why"), [("0", "is not running"), ("4194305", "is not visible")])
def test_container_without_local_process_is_reported(tmp_path: Path, said: str, why: str) -> None:
    with pytest.raises(UnavailableError, match=f"container node {why}|of container node {why}"):
        netns_of(engine_that_says(tmp_path, said), "node")
