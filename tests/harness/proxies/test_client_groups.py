"""Tests that each client is in the control group of its node or pod. BPF programs on these groups see the client."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.backends.backend import WantedPod
from harness.backends.netns import NetnsBackend
from harness.checks import program_requirements
from harness.errors import InconclusiveError
from harness.model.outcomes import Reached
from harness.model.topology import grid
from harness.model.workloads import node_client, pod_client
from harness.netns.isolation import ProgramSandbox
from harness.netns.namespace import Namespace
from harness.netns.socket_maker import SocketMaker
from harness.probes.loop import Probe
from tests.harness.proxies import socket_balancer
from tests.harness.proxies.conftest import Boot

ADDRESS = "10.96.99.9"


@pytest.fixture
def sandbox() -> Iterator[ProgramSandbox]:
    if absent := program_requirements.missing(["cgroup2", "bpf"]):
        pytest.skip(str(absent))
    made = ProgramSandbox("a1", ["cgroup2"])
    yield made
    made.close()


def connect(maker: SocketMaker | Namespace) -> int:
    with maker.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        return asking.connect_ex(("127.0.0.1", 9))


def test_each_client_is_in_a_control_group_of_its_own(sandbox: ProgramSandbox, namespace: Namespace) -> None:
    """Attach a program that rejects connections to the group of one pod."""
    one, other, node = (SocketMaker(namespace, sandbox, group) for group in ("pods/one", "pods/other", ""))
    assert [connect(each) for each in (one, other, node, namespace)] == [errno.ENETUNREACH] * 4
    _refuse(sandbox, "/sys/fs/cgroup/pods/one")
    assert [connect(each) for each in (one, other, node)] == [errno.EPERM, errno.ENETUNREACH, errno.ENETUNREACH]
    for each in (one, other, node):
        each.close()


def _refuse(sandbox: ProgramSandbox, group: str) -> None:
    subprocess.run(sandbox.entering([sys.executable, socket_balancer.__file__, group]), check=True, timeout=30)


def test_probe_process_that_cannot_start_is_not_a_fault_of_the_proxy(
    sandbox: ProgramSandbox, namespace: Namespace
) -> None:
    broken = SocketMaker(namespace, sandbox, "cgroup.procs/no-folder")
    with pytest.raises(InconclusiveError, match=r"control group /cgroup\.procs/no-folder failed: .*Not a directory"):
        connect(broken)


def test_control_groups_of_pods_are_removed_with_that_of_the_node(namespace: Namespace) -> None:
    if absent := program_requirements.missing(["cgroup2"]):
        pytest.skip(str(absent))
    sandbox = ProgramSandbox("a1", ["cgroup2"])
    maker = SocketMaker(namespace, sandbox, "pods/one")
    connect(maker)
    (place,) = Path("/sys/fs/cgroup").rglob("pods/one")
    sandbox.close()
    assert not place.parents[1].exists()
    maker.close()


def test_socket_load_balancer_sees_clients_of_pods_and_nodes(boot: Boot) -> None:
    if absent := program_requirements.missing(["cgroup2", "bpf"]):
        pytest.skip(str(absent))
    balancer = [sys.executable, socket_balancer.__file__, ADDRESS, "10.244.1.2", "8080"]
    backend: NetnsBackend = boot("runs", command=balancer, ready=[{"log": "attached"}], isolation=["cgroup2"],
                                 topology=grid("two-nodes", {"a": 2}))  # fmt: skip
    backend.create_namespace("shop")
    (pod,) = backend.run_pods("shop", [WantedPod("web", "a1")])
    assert pod.addresses["IPv4"] == "10.244.1.2"
    clients = [pod_client("a1"), pod_client("a2"), node_client("a2"), pod]
    found = backend.probe([Probe(backend.source_of(each), "TCP", ADDRESS, 80) for each in clients])
    assert [each.pod for each in found if isinstance(each, Reached)] == ["shop/web"] * 4
    assert len({each.client_address for each in found if isinstance(each, Reached)}) == 4
