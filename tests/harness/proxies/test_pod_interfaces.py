"""Tests pods whose interfaces are created by commands of a recipe, with real packets and with failing commands."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.backends.backend import WantedPod
from harness.backends.netns import NetnsBackend
from harness.errors import InconclusiveError, StartError
from harness.eventually import eventually
from harness.model.manifests import TARGET_PORT
from harness.model.outcomes import Reached
from harness.model.topology import grid
from harness.model.workloads import pod_client
from harness.netns import kernel_state
from harness.netns.process import search_path
from harness.probes.loop import Probe
from harness.recipes import pods
from tests.harness.proxies.conftest import MARK, Boot, MakeFake, checking, processes_in

EXAMPLE = Path(__file__).parents[3] / "examples/own-interfaces"
NEEDS = ("ip", "nsenter")
needs_ip = pytest.mark.skipif(
    any(shutil.which(each, path=search_path()) is None for each in NEEDS), reason=f"unavailable: {' or '.join(NEEDS)}"
)


def example(**changes: str) -> dict[str, Any]:
    """Return the commands of the example with absolute paths. Some have additional shell code at the end."""
    commands = yaml.safe_load((EXAMPLE / "bridge.yaml").read_text(encoding="utf-8"))["pods"]
    script = str(EXAMPLE / "bridge.sh")
    return {
        verb: ["sh", "-c", f'sh {script} "$@"; {changes.get(verb, "")}', *command[1:]]
        for verb, command in commands.items()
    }


def links(backend: NetnsBackend, node: str) -> set[str]:
    return {each.name for each in kernel_state.read(backend.network.nodes[node].namespace) if hasattr(each, "arp")}


@needs_ip
def test_pods_are_reached_by_interfaces_that_commands_made(boot: Boot, tmp_path: Path) -> None:
    """Pods are reachable from their own node and from another node in both families.

    Each pod has its own MAC address and uses ARP.
    """
    told = tmp_path / "told"
    commands = example(detach=f"echo {{pod_namespace}}/{{pod}} {{pod_uid}} >> {told}")
    backend = boot("runs", topology=grid("two-nodes", {"a": 1, "b": 1}), pods=commands)
    before = links(backend, "a1")
    backend.create_namespace("mine")
    first, second = backend.run_pods("mine", [WantedPod("one", "a1"), WantedPod("two", "a1")])
    asking = [
        Probe(backend.namespace_of(client), "TCP", address, TARGET_PORT)
        for client in (second, pod_client("b1"), pod_client("a1"))
        for address in first.addresses.values()
    ]
    seen = backend.probe(asking)
    assert [each.pod for each in seen if isinstance(each, Reached)] == ["mine/one"] * 6
    macs = {re.findall(r"link/ether (\S+)", kernel_text(backend, pod))[0] for pod in (first, second, pod_client("b1"))}
    assert len(macs) == 3
    neighbours = kernel_state.as_text(backend.namespace_of(second))
    assert "neighbour 169.254.1.1 dev eth0" in neighbours
    assert "arp off" not in neighbours
    backend.check_instruments()
    assert backend.environment()["podNetwork"] == "of fake"
    uid = backend.api.get("pods", "mine", "one")["metadata"]["uid"]
    backend.remove_namespace("mine")
    assert f"mine/one {uid}" in told.read_text().splitlines()
    assert links(backend, "a1") == before | {"a1-5"}  # the link of the client
    backend.close()
    named = [line.split()[0] for line in told.read_text().splitlines()]
    assert sorted(named) == ["/"] * 4 + ["mine/one", "mine/two"]  # two trial pods and two clients, which no API has


def kernel_text(backend: NetnsBackend, client: Any) -> str:
    path = backend.namespace_of(client).proc_path
    ended = subprocess.run(
        ["nsenter", f"--net={path}", "ip", "link", "show", "eth0"],
        env={"PATH": search_path()}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return ended.stdout


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        ({"attach": ["sh", "-c", "echo no such switch; exit 3"]},
         r"^fake on a1, to attach client pod a1-2, exited with 3; the first error of its log.*: no such switch$"),
        ({"attach": ["sleep", "600"], "seconds": 0.5},
         r"to attach client pod a1-2, did not end within 0\.5 s; its log is empty"),
        ({"attach": ["true"]}, r"a1-2 to reply to its node at 10\.244\.1\.2, after its attachment;"),
        ({"attach": ["no-such-program"]}, r"exited with 127; .*cannot run no-such-program"),
    ],
)  # fmt: skip
def test_command_that_attaches_nothing_ends_the_start(
    boot: Boot, monkeypatch: pytest.MonkeyPatch, commands: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(pods, "_ANSWER_SECONDS", 0.2)
    with pytest.raises(StartError, match=said) as raised:
        boot("runs", pods=commands)
    assert "pods-a1.log" in raised.value.logs


@needs_ip
def test_command_that_fails_to_detach_a_pod_is_named(boot: Boot, tmp_path: Path) -> None:
    told = tmp_path / "told"
    backend = boot("runs", pods=example(detach=f"test ! -e {told} || {{{{ echo no such port; exit 2; }}}}"))
    backend.create_namespace("mine")
    backend.run_pods("mine", [WantedPod("one", "a1")])
    told.touch()
    with pytest.raises(InconclusiveError, match=r"to detach pod mine/one, exited with 2; .*: no such port$"):
        backend.delete_pod("mine", "one")
    told.unlink()


@pytest.mark.slow
def test_command_ends_with_its_starter(fake: MakeFake, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    attach = ["sh", "-c", f"{MARK} > {told}.new; mv {told}.new {told}; exec sleep 600"]
    recipe = {"name": "fake", "command": fake("runs"), "ready": [{"http": {"port": 10256}}], "pods": {"attach": attach}}
    with checking(recipe, tmp_path, until=told) as running:
        running.send_signal(signal.SIGKILL)
        running.wait(20)
        pid_namespace = int(told.read_text())
        eventually(lambda: not processes_in(pid_namespace), describe="the end of its command")
