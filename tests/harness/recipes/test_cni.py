"""Tests that CNI plugins run as the CNI specification requires: order, variables, input, and failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.netns.addresses import NodePlan
from harness.recipes import cni

PLUGIN = """#!{python}
import json, os, sys
read = json.load(sys.stdin)
told = {{name: value for name, value in os.environ.items() if name.startswith("CNI_")}}
with open({told!r}, "a") as file:
    file.write(json.dumps([read["type"], told, read]) + "\\n")
if read.get("fails"):
    print(json.dumps({{"code": 11, "msg": "no such switch", "details": "s1"}}))
    sys.exit(1)
if os.environ["CNI_COMMAND"] == "ADD":
    result = read.get("prevResult") or {{"ips": [{{"address": each}} for each in read.get("gives", [])]}}
    print(json.dumps({{**result, "by": result.get("by", []) + [read["type"]]}}))
"""
ADDRESSES = ("10.244.1.7", "fd00:10:244:1::7")
GIVES = ["10.244.1.7/24", "fd00:10:244:1::7/64"]
POD = ("web", "shop", "uid-1", "/proc/1/ns/net", "02:00:00:00:01:07", "eth0", *ADDRESSES)


class Plugins:
    """Plugins that record their input."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._told = folder / "told"
        for name in ("first", "second"):
            (folder / name).write_text(PLUGIN.format(python=sys.executable, told=str(self._told)), encoding="utf-8")
            (folder / name).chmod(0o755)

    def run(self, verb: str, *plugins: dict[str, Any], pod: tuple[str, ...] = POD, **config: Any) -> str:
        """Run a configuration. Return the error, or "" if there is none."""
        file = self.folder / "net.conflist"
        listed = {"plugins": list(plugins)} if plugins else {}
        file.write_text(json.dumps({"cniVersion": "1.0.0", "name": "net", **listed, **config}), encoding="utf-8")
        ended = subprocess.run(
            [sys.executable, "-IS", cni.__file__, verb, str(file), str(self.folder), *pod],
            env=os.environ | {"CNI_PATH": f"/none:{self.folder}"},
            capture_output=True, text=True, check=False, timeout=20,
        )  # fmt: skip
        assert bool(ended.returncode) == bool(ended.stderr), ended
        return ended.stderr.removeprefix(f"{file}: ").rstrip()

    def told(self) -> list[tuple[str, dict[str, str], dict[str, Any]]]:
        """Return the name, variables and input of each plugin that ran, in order."""
        found = [json.loads(line) for line in self._told.read_text("utf-8").splitlines()] if self._told.exists() else []
        self._told.unlink(missing_ok=True)
        return [(name, variables, read) for name, variables, read in found]


@pytest.fixture
def plugins(tmp_path: Path) -> Plugins:
    return Plugins(tmp_path)


def test_plugins_are_added_in_order_and_deleted_in_reverse(plugins: Plugins) -> None:
    chain: list[dict[str, Any]] = [{"type": "first", "gives": GIVES}, {"type": "second"}]
    assert plugins.run("ADD", *chain) == ""
    (_, variables, one), (_, _, two) = plugins.told()
    assert variables == {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "uid-1",
        "CNI_NETNS": "/proc/1/ns/net",
        "CNI_IFNAME": "eth0",
        "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;"
        "K8S_POD_INFRA_CONTAINER_ID=uid-1;K8S_POD_UID=uid-1",
        "CNI_PATH": f"/none:{plugins.folder}",
    }
    assert one == {"cniVersion": "1.0.0", "name": "net", "type": "first", "gives": GIVES}
    assert two["prevResult"]["by"] == ["first"]

    assert plugins.run("DEL", *chain) == ""
    deleted = plugins.told()
    assert [(name, variables["CNI_COMMAND"]) for name, variables, _ in deleted] == [("second", "DEL"), ("first", "DEL")]
    assert [read["prevResult"]["by"] for _, _, read in deleted] == [["first", "second"]] * 2
    assert plugins.run("DEL", *chain) == ""  # a second time, without a cached result
    assert all("prevResult" not in read for _, _, read in plugins.told())


def test_single_plugin_is_read_as_a_list(plugins: Plugins) -> None:
    assert plugins.run("ADD", type="first", gives=GIVES) == ""
    ((name, _, read),) = plugins.told()
    assert (name, read["gives"], "plugins" in read) == ("first", GIVES, False)


def test_plugins_receive_their_declared_capabilities(plugins: Plugins) -> None:
    able = {"ips": True, "ipRanges": True, "mac": False, "portMappings": True}
    assert plugins.run("ADD", {"type": "first", "gives": GIVES, "capabilities": able}, {"type": "second"}) == ""
    (_, _, one), (_, _, two) = plugins.told()
    ranges = [[{"subnet": each}] for each in NodePlan(1).pod_cidrs.values()]
    assert one["runtimeConfig"] == {"ips": GIVES, "ipRanges": ranges}
    assert "capabilities" not in one
    assert "runtimeConfig" not in two


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ([{"type": "first", "fails": True}, {"type": "second"}], "plugin first: no such switch s1"),
        ([{"type": "third"}], "plugin third is not in /none:"),
        ([{"type": "first", "gives": GIVES[:1]}], "the pod got ['10.244.1.7'], not ['10.244.1.7', 'fd00:"),
        ([{"kind": "first"}], "a plugin has no type"),
    ],
)
def test_plugin_error_is_reported(plugins: Plugins, listed: list[dict[str, Any]], said: str) -> None:
    assert plugins.run("ADD", *listed).startswith(said)
    assert [name for name, _, _ in plugins.told()] in ([], ["first"])


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_invalid_configuration_is_refused(text: str) -> None:
    with pytest.raises(cni.CniError):
        cni.parse(text)
