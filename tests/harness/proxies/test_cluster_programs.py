"""Tests what a recipe has once per cluster: objects that exist before the programs, and programs on no node."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.api.client import Object
from harness.backends.netns import NetnsBackend
from harness.errors import DistrustError, EndedError, InconclusiveError
from harness.eventually import eventually
from harness.model.release import PROXY, Release
from harness.model.topology import grid
from harness.proxies.executable import ExecutableProxy
from tests.harness.proxies.conftest import MARK, Boot, checking, processes_in, program
from tests.harness.proxies.test_node_programs import exists

CONFIG: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"zones": "on"}}
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "pools.mine.example"},
    "spec": {
        "group": "mine.example",
        "scope": "Cluster",
        "names": {"plural": "pools", "singular": "pool", "kind": "Pool"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                    }
                },
            }
        ],
    },
}
POOL: Object = {"apiVersion": "mine.example/v1", "kind": "Pool", "metadata": {"name": "all"}, "spec": {"size": 3}}

GET = """
import json, ssl, sys, urllib.request
config = json.load(open(sys.argv[1]))
asked = urllib.request.Request(
    config["clusters"][0]["cluster"]["server"] + sys.argv[2],
    headers={"Authorization": "Bearer " + config["users"][0]["user"]["token"]},
)
print(urllib.request.urlopen(asked, context=ssl._create_unverified_context()).read().decode())
"""
"""Prints the response of a kubeconfig's API server to a path."""

LISTEN = """
import socket
server = socket.create_server(("0.0.0.0", 7777))
print("up", flush=True)
while True:
    server.accept()[0].sendall(b"told")
"""
TALK = """
import socket, sys
print("up:", socket.create_connection((sys.argv[1], 7777), 5).recv(4).decode(), flush=True)
"""


def read_from(path: str) -> dict[str, Any]:
    """Return a program that prints a response of the API server and then is ready."""
    return program("operator", f"{sys.executable} {{folder}}/get.py {{kubeconfig}} {path}; echo up") | {
        "files": {"get.py": GET.replace("{", "{{").replace("}", "}}")}
    }


def pid_of(backend: NetnsBackend) -> int:
    """Return the process id of the first program that runs once per cluster."""
    assert isinstance(backend.proxy, ExecutableProxy)
    return backend.proxy._programs._of_cluster[0].processes.running["cluster"].pid


def test_program_of_the_cluster_runs_once_and_is_reached_from_every_node(boot: Boot) -> None:
    controller = {"name": "controller", "command": [sys.executable, "-c", LISTEN], "ready": [{"log": "^up"}]}
    agent = program("agent", f"{sys.executable} {{folder}}/talk.py {{address}}", files={"talk.py": TALK})
    two = grid("two-nodes", {"a": 1, "b": 1})
    backend = boot("", topology=two, cluster_programs=[controller], programs=[agent])
    logs = backend._logs()
    assert (logs["agent-a1.log"], logs["agent-b1.log"]) == ("up: told\n", "up: told\n")
    assert [name for name in logs if name.startswith("controller")] == ["controller-cluster.log"]


def test_objects_exist_before_any_program_starts(boot: Boot) -> None:
    backend = boot("runs", objects=[CONFIG], cluster_programs=[read_from("/api/v1/namespaces/default/configmaps/mine")])
    said = backend.proxy.evidence("a1")["operator-cluster.log"].splitlines()
    assert json.loads(said[0])["data"] == CONFIG["data"]


def test_existing_object_is_updated(boot: Boot) -> None:
    named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "labels": {"mine": "yes"}}}
    backend = boot("runs", objects=[named])
    assert backend.api.get("namespaces", "", "kube-system")["metadata"]["labels"]["mine"] == "yes"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (CONFIG | {"data": 3}, "fake: object ConfigMap mine is refused: "),
        (
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"}},
            "object ClusterRole all: the API server does not serve this kind in rbac.authorization.k8s.io/v1",
        ),
    ],
)
def test_refused_object_is_named_and_aborts_the_start(boot: Boot, given: Object, said: str) -> None:
    with pytest.raises(DistrustError, match=said):
        boot("runs", objects=[given])


def test_exited_cluster_program_is_detected_and_named(boot: Boot) -> None:
    backend = boot("runs", cluster_programs=[program("operator", "echo up")])
    os.kill(pid_of(backend), signal.SIGKILL)
    with pytest.raises(EndedError, match="operator on cluster was ended by SIGKILL"):
        eventually(lambda: backend.settle() < 0, describe="its end")


def test_program_of_the_cluster_is_waited_for_by_its_checks(boot: Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.backends.netns.BOOT_SECONDS", 0.3)
    operator = program("operator", "echo up", synced=[{"log": "^done$"}])
    with pytest.raises(InconclusiveError, match=r"\(operator on cluster: no line of the log matches '\^done\$'\)"):
        boot("runs", cluster_programs=[operator])


def test_program_of_the_cluster_starts_again_with_the_first_node_and_ends_with_the_last(boot: Boot) -> None:
    backend = boot("runs", cluster_programs=[program("operator", "echo up")])
    first = pid_of(backend)
    backend.start_component(PROXY, Release(), ["a1"])
    assert pid_of(backend) == first
    backend.stop_component(PROXY, ["a1"])
    assert not exists(first)
    backend.start_component(PROXY, Release(), ["a1"])
    second = pid_of(backend)
    backend.close()
    assert not exists(second)


def test_unready_cluster_program_leaves_its_log_and_no_process(boot: Boot) -> None:
    last = program("last", "echo bad flag: --x; exit 3")
    with pytest.raises(DistrustError, match=r"last on cluster exited with 3; .*bad flag: --x") as raised:
        boot("runs", cluster_programs=[program("first", f"{MARK}; echo up"), last])
    pid_namespace = int(raised.value.logs["first-cluster.log"].split()[0])
    eventually(lambda: not processes_in(pid_namespace), describe="the end of the first program")


def test_custom_resources_are_served_before_any_program_starts(boot: Boot) -> None:
    operator = read_from("/apis/mine.example/v1/pools/all")
    backend = boot("runs", objects=[DEFINITION, POOL], cluster_programs=[operator])
    said = backend.proxy.evidence("a1")["operator-cluster.log"].splitlines()
    assert json.loads(said[0])["spec"] == {"size": 3}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=lambda how: how.name)
def test_cluster_program_ends_with_its_starter(how: signal.Signals, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    recipe = {
        "name": "fake",
        "cluster_programs": [program("operator", f"{MARK} > {told}.new; mv {told}.new {told}; echo up")],
        **program("fake", "echo no") | {"name": "fake", "ready_seconds": 60},
    }
    with checking(recipe, tmp_path, until=told) as running:
        running.send_signal(how)
        running.wait(20)
        pid_namespace = int(told.read_text())
        eventually(lambda: not processes_in(pid_namespace), describe="the end of its program")
